"""An extent's chunk files mapped one behind the other, so that kernels see one piece of memory (mmap storage)."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

from device_agent.failure import AgentFailure
from device_agent.model.memory import PAGE
from device_agent.protocol import ExtentSpec

PROT_NONE, MAP_FIXED = 0, 0x10  # Linux; Python's mmap can neither reserve nor say where
FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class MappedExtent:
    """`address` holds until close(). Pages come from the page cache or the flash when they are touched."""

    def __init__(self, folder: Path, extent: ExtentSpec) -> None:
        """Raises AgentFailure: pack_corrupt for a missing file, io_error when it cannot be mapped."""
        self._nbytes = extent.nbytes
        self._files: list[int] = []
        self.address = _map(None, extent.nbytes, PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        try:
            position = self.address
            for chunk in extent.chunks:
                self._files.append(_open(folder / chunk.file))
                _map(position, chunk.nbytes, mmap.PROT_READ, mmap.MAP_SHARED | MAP_FIXED, self._files[-1])
                position += chunk.nbytes
        except AgentFailure:
            self.close()
            raise

    def evict(self) -> None:
        """Give the pages back, to the system too: the next touch reads from flash, unless others use the file."""
        _libc.madvise(self.address, self._nbytes, mmap.MADV_DONTNEED)
        for file in self._files:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        if self._nbytes:
            _libc.munmap(self.address, self._nbytes)
            self._nbytes = 0
        for file in self._files:
            os.close(file)
        self._files.clear()


def _map(where: int | None, nbytes: int, protection: int, flags: int, file: int) -> int:
    address = _libc.mmap(where, -(-nbytes // PAGE) * PAGE, protection, flags, file, 0)
    if address == FAILED:
        raise AgentFailure("io_error", f"cannot map {nbytes} bytes of weights: {os.strerror(ctypes.get_errno())}")
    return int(address)


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise AgentFailure("pack_corrupt", f"{file}: no such file") from None
