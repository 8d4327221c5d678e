"""Weights of a pack in memory: resident, or copied layer by layer through a small ring as a streamed source does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from device_agent.kernels.ggml import dequantize
from device_agent.kernels.reference import unpack
from device_agent.model.source import Floats, Ids
from device_agent.protocol import PackManifest, TensorSpec, from_json

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class MemorySource:
    """Implements model.source.WeightSource. With `ring` slots a layer's address changes from pass to pass."""

    def __init__(self, folder: Path, ring: int = 0) -> None:
        self.manifest = from_json(PackManifest, json.loads((folder / "model.json").read_text()))
        self.layouts: dict[str, str] = {}
        self.resident = ring == 0
        self.read_bytes = 0
        self.read_wait_s = 0.0
        self.layers_asked: list[int] = []
        self._extents = {e.name: _aligned(b"".join((folder / c.file).read_bytes() for c in e.chunks))
                         for e in self.manifest.extents}  # fmt: skip
        layers = [self._extents[f"layer.{i}"] for i in range(self.manifest.hyper.n_layers)]
        self._ring = [_aligned(bytes(max(map(len, layers)))) for _ in range(ring)]
        self._next = 0

    def begin_pass(self) -> None:
        self.layers_asked.clear()

    @contextmanager
    def layer(self, index: int) -> Iterator[int]:
        self.layers_asked.append(index)
        data = self._extents[f"layer.{index}"]
        if self.resident:
            yield data.ctypes.data
            return
        slot = self._ring[self._next]
        self._next = (self._next + 1) % len(self._ring)
        slot[: len(data)] = data
        self.read_bytes += len(data)
        yield slot.ctypes.data
        slot[:] = 0xFF  # recycled: whoever still reads it computes NaN

    def extent(self, name: str) -> int:
        return int(self._extents[name].ctypes.data)

    def embed(self, ids: Ids) -> Floats:
        spec = next(spec for spec in self.manifest.tensors if spec.name == "token_embd.weight")
        return dequantize(spec.ggml_type, self._raw(spec).reshape(spec.shape[1], -1)[ids])

    def output_rows(self, ids: Ids) -> Bytes:
        named = {spec.name: spec for spec in self.manifest.tensors}
        spec = named.get("output.weight") or named["token_embd.weight"]
        return self._raw(spec).reshape(spec.shape[1], -1)[ids]

    def tensors(self) -> dict[str, Floats]:
        """Every tensor as the reference wants it."""
        return {spec.name: unpack(spec, self._raw(spec)) for spec in self.manifest.tensors}

    def poison(self, extent: str) -> None:
        """Make every number of a resident extent NaN."""
        self._extents[extent][:] = 0xFF

    def close(self) -> None:
        self._extents.clear()

    def _raw(self, spec: TensorSpec) -> Bytes:
        return self._extents[spec.extent][spec.offset : spec.offset + spec.nbytes]


def _aligned(data: bytes) -> Bytes:
    room = np.empty(len(data) + 64, np.uint8)
    start = -room.ctypes.data % 64
    view = room[start : start + len(data)]
    view[:] = np.frombuffer(data, np.uint8)
    return view
