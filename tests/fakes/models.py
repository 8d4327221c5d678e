"""A model store in memory, for tests of what happens before a model is opened."""

from __future__ import annotations

from collections.abc import Sequence

from device_agent.protocol import ExtentSpec, HyperParams, PackManifest, SamplingSpec, TensorSpec
from orchestrator.errors import ModelError
from orchestrator.models.acceptance import Acceptance
from orchestrator.models.store import Pair

START, END = 1, 2


class LetterTokenizer:
    """A token a character; the chat template puts START and END around a message."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def encode_chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        return [i for m in messages for i in (START, *self.encode(m["role"] + m["content"]), END)]


class FakeModels:
    """Pairs by name; `pairs` maps a name to (target pack, draft pack)."""

    def __init__(self, **pairs: tuple[str, str]) -> None:
        self._pairs = pairs or {"small": ("target-hash", "draft-hash")}
        self.learnt: Acceptance | None = None  # of every pair
        self.encoded = 0  # how often a tokenizer was asked for

    def pair(self, name: str) -> Pair:
        if name not in self._pairs:
            raise ModelError(f"model pair {name!r} is not added", f"Add it: lever models add {name}")
        target, draft = self._pairs[name]
        return Pair(name, target, draft, "target", "draft", stop_token_ids=(END,))

    def manifest(self, pack_hash: str) -> PackManifest:
        """Four layers of 10 MB, and 1 MB of all else."""
        hyper = HyperParams("llama", 4, 64, 96, 4, 2, 16, 300, 1e-5, 10_000.0, 16, 512)
        sizes = {f"layer.{i}": 10_000_000 for i in range(4)} | {"embedding": 900_000, "globals": 100_000}
        embedding = TensorSpec("token_embd.weight", "F16", (64, 300), "embedding", 0, 38_400)
        extents = tuple(ExtentSpec(name, nbytes, ()) for name, nbytes in sizes.items())
        return PackManifest(1, "fake", pack_hash, hyper, extents, (embedding,))

    def acceptance(self, pair_name: str, sampling: SamplingSpec) -> Acceptance | None:
        return self.learnt

    def tokenizer(self, pair_name: str) -> LetterTokenizer:
        self.encoded += 1
        return LetterTokenizer()
