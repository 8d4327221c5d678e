"""Page-aligned memory that reads land in and kernels work from."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE


class Region:
    """Anonymous mapped memory of at least `nbytes`; DRAM is taken as pages are written."""

    def __init__(self, nbytes: int) -> None:
        self._map = mmap.mmap(-1, max(PAGE, -(-nbytes // PAGE) * PAGE))
        self.bytes: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(self._map, np.uint8)
        self.address: int = self.bytes.ctypes.data

    @property
    def view(self) -> memoryview:
        return memoryview(self._map)
