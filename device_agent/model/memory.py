"""Page-aligned memory that reads land in and kernels work from."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from device_agent.failure import AgentFailure

PAGE = mmap.PAGESIZE


class Region:
    """Anonymous mapped memory of at least `nbytes`; DRAM is taken as pages are written.

    Raises AgentFailure out_of_memory.
    """

    def __init__(self, nbytes: int) -> None:
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # so that limits on data count it, and large pages may serve it
        try:
            self._map = mmap.mmap(-1, max(PAGE, -(-nbytes // PAGE) * PAGE), private)
        except OSError as error:
            raise AgentFailure("out_of_memory", f"no {nbytes / 1e6:.1f} MB of DRAM for weights: {error}") from error
        self.bytes: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(self._map, np.uint8)
        self.address: int = self.bytes.ctypes.data

    @property
    def view(self) -> memoryview:
        return memoryview(self._map)
