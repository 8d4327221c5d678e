"""A byte-level BPE tokenizer rebuilt from a GGUF's vocabulary, saved so that it loads in a fraction of a second."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from orchestrator.errors import ModelError
from orchestrator.models.vocabulary import Vocabulary

# Splitting patterns by `tokenizer.ggml.pre`, as published with the models.
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def save_tokenizer(vocabulary: Vocabulary, folder: Path) -> None:
    """Write `folder` for ChatTokenizer. Raises ModelError for a pre-tokenizer that is not known."""
    folder.mkdir(parents=True, exist_ok=True)
    chat = {
        "template": vocabulary.chat_template,
        "bos": _text(vocabulary, vocabulary.bos_id),
        "eos": _text(vocabulary, vocabulary.eos_id),
    }
    _replace(folder / "chat.json", json.dumps(chat))
    _replace(folder / "tokenizer.json", build(vocabulary).to_str())


def build(vocabulary: Vocabulary) -> Tokenizer:
    """The library's tokenizer for `vocabulary`."""
    ids: dict[str, int] = {}
    for index, token in enumerate(vocabulary.tokens):
        ids.setdefault(token, index)
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=list(vocabulary.merges)))
    tokenizer.pre_tokenizer = _pre_tokenizer(vocabulary.pre)
    tokenizer.decoder = decoders.ByteLevel()
    specials = [vocabulary.tokens[index] for index in vocabulary.special_ids]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return tokenizer


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    steps: list[pre_tokenizers.PreTokenizer]
    match name:
        case "qwen2":
            steps = [pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
        case "smollm":
            steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False, use_regex=True)]
        case _:
            raise ModelError(f"pre-tokenizer {name!r} is not supported", "Supported: qwen2, smollm.")
    return pre_tokenizers.Sequence(steps)


def _text(vocabulary: Vocabulary, token_id: int | None) -> str:
    return "" if token_id is None else vocabulary.tokens[token_id]


def _replace(file: Path, text: str) -> None:
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.replace(file)
