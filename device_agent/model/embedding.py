"""Embedding rows, dequantised one batch at a time: from DRAM when the table is there anyway, else from the file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from device_agent.failure import AgentFailure
from device_agent.kernels.ggml import dequantize
from device_agent.model.memory import Region
from device_agent.model.pack import Pack
from device_agent.model.source import Floats, Ids

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class EmbeddingRows:
    """`token_embd.weight` by rows. A table of 100 MB costs no DRAM when a pass needs three rows of 1 kB."""

    def __init__(self, pack: Pack, resident: Region | None) -> None:
        self._spec = next(tensor for tensor in pack.manifest.tensors if tensor.name == "token_embd.weight")
        self._n_rows = self._spec.shape[1]
        self._row_bytes = self._spec.nbytes // self._n_rows
        self._resident = resident
        self._folder = pack.folder
        self._chunks = pack.extents[self._spec.extent].chunks
        self._files = [] if resident else [_open(pack.folder / chunk.file) for chunk in self._chunks]

    def rows(self, ids: Ids) -> Floats:
        """Rows of `ids` (n,) as a fresh (n, d_model) array; an id outside the table is AgentFailure(bad_spec)."""
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= self._n_rows):
            raise AgentFailure("bad_spec", f"a token id is outside 0..{self._n_rows - 1}: {ids.tolist()}")
        raw = np.empty((len(ids), self._row_bytes), np.uint8)
        for row, token in enumerate(ids.tolist()):
            self._read(self._spec.offset + token * self._row_bytes, raw[row])
        return dequantize(self._spec.ggml_type, raw)

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()

    def _read(self, start: int, into: Bytes) -> None:
        if self._resident:
            into[:] = self._resident.bytes[start : start + len(into)]
            return
        for chunk, file in zip(self._chunks, self._files, strict=True):
            if start < chunk.nbytes and len(into):  # a row may straddle two chunks
                part = into[: chunk.nbytes - start]
                if os.preadv(file, [part.data], start) != len(part):
                    raise AgentFailure("pack_corrupt", f"{self._folder / chunk.file} ends before byte {start}")
                into, start = into[len(part) :], chunk.nbytes
            start -= chunk.nbytes


def _open(file: Any) -> int:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: rows are far apart
    return descriptor
