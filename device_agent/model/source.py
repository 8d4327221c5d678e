"""Where a model's weights come from: what the transformer asks of storage."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from device_agent.protocol import PackManifest

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Ids = np.ndarray[Any, np.dtype[np.int32]]


class WeightSource(Protocol):
    """The weights of one pack, resident or streamed. A tensor's address is its extent's plus TensorSpec.offset."""

    @property
    def manifest(self) -> PackManifest: ...

    @property
    def layouts(self) -> Mapping[str, str]:
        """Of the tensors that do not lie by rows (kernels.layouts), by name."""

    @property
    def resident(self) -> bool:
        """layer() never waits and gives the same address each time: one graph then spans all layers."""

    @property
    def read_bytes(self) -> int:
        """Layer bytes that passes consumed so far."""

    @property
    def read_wait_s(self) -> float:
        """Seconds that layer() waited so far."""

    def begin_pass(self) -> None:
        """All layers will be asked for once, in order 0..L-1: the reader may start or go on."""

    def layer(self, index: int) -> AbstractContextManager[int]:
        """Wait until the layer is in DRAM; gives its address, which holds until the context is left."""

    def extent(self, name: str) -> int:
        """Address of a resident extent: `globals`, and what holds the output projection unless that was left out."""

    def embed(self, ids: Ids) -> Floats:
        """Embedding rows of `ids` (n,), dequantised: a fresh (n, d_model) array, which the caller may overwrite."""

    def output_rows(self, ids: Ids) -> Bytes:
        """Rows of the output projection for tokens `ids` (n,), as stored: a fresh (n, bytes of a row)."""

    def close(self) -> None: ...
