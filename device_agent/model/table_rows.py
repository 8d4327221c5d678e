"""Rows of a matrix of the pack as they are stored: from DRAM when it is there anyway, else from the file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from device_agent.failure import AgentFailure
from device_agent.kernels.ggml import dequantize
from device_agent.model.memory import Region
from device_agent.model.pack import Pack
from device_agent.model.source import Bytes, Floats, Ids
from device_agent.protocol import TensorSpec


class TableRows:
    """A table of 100 MB costs no DRAM when a pass needs three rows of 1 kB. Raises AgentFailure pack_corrupt."""

    def __init__(self, pack: Pack, spec: TensorSpec, resident: Region | None) -> None:
        self._spec, self._resident, self._folder = spec, resident, pack.folder
        self._row_bytes = spec.nbytes // spec.shape[1]
        self._chunks = pack.extents[spec.extent].chunks
        self._files: list[int] = []

    def raw(self, ids: Ids) -> Bytes:
        """Rows of `ids` (n,) as a fresh (n, bytes of a row) array; an id outside is AgentFailure(bad_spec)."""
        n_rows = self._spec.shape[1]
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= n_rows):
            raise AgentFailure("bad_spec", f"a token id is outside 0..{n_rows - 1}: {ids.tolist()}")
        rows = np.empty((len(ids), self._row_bytes), np.uint8)
        starts = np.flatnonzero(np.diff(ids, prepend=-2) != 1).tolist()  # neighbours are read together
        for first, last in zip(starts, [*starts[1:], len(ids)], strict=False):
            self._read(self._spec.offset + int(ids[first]) * self._row_bytes, rows[first:last].reshape(-1))
        return rows

    def rows(self, ids: Ids) -> Floats:
        """As `raw`, dequantised: (n, columns)."""
        return dequantize(self._spec.ggml_type, self.raw(ids))

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()

    def _read(self, start: int, into: Bytes) -> None:
        if self._resident:
            into[:] = self._resident.bytes[start : start + len(into)]
            return
        self._files = self._files or [_open(self._folder / chunk.file) for chunk in self._chunks]
        for chunk, file in zip(self._chunks, self._files, strict=True):
            if start < chunk.nbytes and len(into):  # rows may straddle two chunks
                part = into[: chunk.nbytes - start]
                if os.preadv(file, [part.data], start) != len(part):
                    raise AgentFailure("pack_corrupt", f"{self._folder / chunk.file} ends before byte {start}")
                into, start = into[len(part) :], chunk.nbytes
            start -= chunk.nbytes


def _open(file: Any) -> int:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: rows are far apart
    return descriptor
