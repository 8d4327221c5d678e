"""A model's vocabulary as its GGUF states it, and whether two models share one."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.errors import ModelError
from orchestrator.models.gguf_file import GgufFile, sound_metadata

CONTROL, USER_DEFINED, UNUSED = 3, 4, 5  # tokenizer.ggml.token_type
# Tokens that end an answer, whatever the file names as its eos.
ENDINGS = frozenset({"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>"})


@dataclass(frozen=True)
class Vocabulary:
    tokens: tuple[str, ...]  # by id
    kinds: tuple[int, ...]
    merges: tuple[tuple[str, str], ...]
    pre: str  # name of the pre-tokenizer
    chat_template: str | None
    bos_id: int | None
    eos_id: int | None

    def is_real(self, token_id: int) -> bool:
        """Not a filler that only rounds the table up to a size."""
        return self.kinds[token_id] != UNUSED

    @property
    def special_ids(self) -> tuple[int, ...]:
        """Tokens that are matched whole in text: control and user-defined ones."""
        return tuple(index for index, kind in enumerate(self.kinds) if kind in (CONTROL, USER_DEFINED))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        named = {index for index in self.special_ids if self.tokens[index] in ENDINGS}
        return tuple(sorted(named | ({self.eos_id} if self.eos_id is not None else set())))


def read_vocabulary(gguf: GgufFile) -> Vocabulary:
    """Raises ModelError for a tokenizer other than byte-level BPE."""
    with sound_metadata(gguf.path):
        return _vocabulary(gguf)


def _vocabulary(gguf: GgufFile) -> Vocabulary:
    model = gguf.require("tokenizer.ggml.model")
    if model != "gpt2":
        raise ModelError(f"{gguf.path}: tokenizer {model!r} is not supported", "Supported: 'gpt2' (byte-level BPE).")
    tokens = tuple(gguf.require("tokenizer.ggml.tokens"))
    kinds = tuple(gguf.get("tokenizer.ggml.token_type", [1] * len(tokens)))
    if len(kinds) != len(tokens):
        raise ModelError(f"{gguf.path}: {len(kinds)} token types for {len(tokens)} tokens", "Get the file again.")
    return Vocabulary(
        tokens=tokens,
        kinds=kinds,
        merges=tuple(_merge(gguf, merge) for merge in gguf.require("tokenizer.ggml.merges")),
        pre=str(gguf.get("tokenizer.ggml.pre", "default")),
        chat_template=gguf.get("tokenizer.chat_template"),
        bos_id=gguf.get("tokenizer.ggml.bos_token_id"),
        eos_id=gguf.get("tokenizer.ggml.eos_token_id"),
    )


def _merge(gguf: GgufFile, text: str) -> tuple[str, str]:
    left, space, right = text.partition(" ")
    if not (left and space and right):
        raise ModelError(f"{gguf.path}: {text!r} is not a merge of two tokens", "Get the file again.")
    return left, right


def check_pair(target: Vocabulary, draft: Vocabulary) -> None:
    """Raises ModelError unless each real token has the same id in both; sizes may differ by fillers."""
    for index in range(max(len(target.tokens), len(draft.tokens))):
        mine, other = _real(target, index), _real(draft, index)
        if mine != other:
            raise ModelError(
                f"these models cannot be a pair: token {index} is {_shown(mine)} in the target"
                f" and {_shown(other)} in the draft",
                "A draft must have its target's tokenizer; models of one family usually do.",
            )


def _real(vocabulary: Vocabulary, index: int) -> str | None:
    return vocabulary.tokens[index] if index < len(vocabulary.tokens) and vocabulary.is_real(index) else None


def _shown(token: str | None) -> str:
    return "no token" if token is None else repr(token)
