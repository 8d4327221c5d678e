"""An output projection onto fewer tokens: the frequent ones and those of the text at hand, in their own matrix.

A draft model's whole projection takes a third of a pass. What the trimmed one cannot say, it does not draft: that
costs acceptance, never correctness.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from device_agent.kernels.base import OutputRows
from device_agent.kernels.ggml import memory_at
from device_agent.model.memory import Region
from device_agent.model.source import Ids, WeightSource
from device_agent.protocol import PackManifest, TensorSpec


def output_spec(manifest: PackManifest) -> TensorSpec:
    """The output projection's tensor; with tied embeddings the embedding."""
    named = {spec.name: spec for spec in manifest.tensors}
    return named.get("output.weight") or named["token_embd.weight"]


class TrimmedOutput:
    """`size` rows. Byte-pair vocabularies are built by frequency, so the lowest ids are the most frequent tokens."""

    def __init__(self, source: WeightSource, size: int) -> None:
        spec = output_spec(source.manifest)
        n_vocab, row_bytes = spec.shape[1], spec.nbytes // spec.shape[1]
        self.size = min(size, n_vocab)
        self.tokens: Ids = np.arange(self.size, dtype=np.int32)  # of each row
        self._whole = memory_at(source.extent(spec.extent) + spec.offset, spec.nbytes).reshape(n_vocab, row_bytes)
        self._region = Region(self.size * row_bytes)
        self._rows = self._region.bytes[: self.size * row_bytes].reshape(self.size, row_bytes)
        self._rows[:] = self._whole[: self.size]
        self._kept = set(range(self.size))
        self._next = self.size - 1
        self.rows = OutputRows(spec.ggml_type, self.size, self._region.address)

    def keep(self, tokens: Iterable[int]) -> None:
        """Have rows for `tokens`, in place of the least frequent ones or of tokens kept long ago."""
        for token in tokens:
            if token not in self._kept and token < len(self._whole):
                self._replace(self._next, token)
                self._next = self._next - 1 if self._next > self.size // 2 else self.size - 1

    def _replace(self, row: int, token: int) -> None:
        self._kept.remove(int(self.tokens[row]))
        self._kept.add(token)
        self.tokens[row] = token
        self._rows[row] = self._whole[token]
