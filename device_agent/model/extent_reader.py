"""Reading extents past the page cache: O_DIRECT in large pieces, or buffered and dropped where that is refused."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from device_agent.failure import AgentFailure
from device_agent.model.pacer import Pacer
from device_agent.protocol import ChunkSpec, ExtentSpec

DIRECT, BUFFERED = "direct", "buffered"


class ExtentReader:
    """Fills page-aligned memory with extents of one pack. One thread at a time.

    `io_mode` is `direct` until the filesystem refuses O_DIRECT (EINVAL: tmpfs, overlays, some f2fs), then `buffered`.
    """

    def __init__(self, folder: Path, piece_bytes: int, pacer: Pacer | None = None) -> None:
        self.io_mode = DIRECT
        self.read_bytes, self.busy_s = 0, 0.0  # so far; waiting for the pacer counts as busy
        self._folder = folder
        self._piece_bytes = piece_bytes
        self._pacer = pacer
        self._files: dict[str, int] = {}

    def read(self, extent: ExtentSpec, into: memoryview) -> None:
        """Read all of `extent` to the start of `into`.

        Raises AgentFailure: pack_corrupt when a file is too short or gone, io_error when the device fails.
        """
        started, position = time.perf_counter(), 0
        for chunk in extent.chunks:
            self._read_chunk(chunk, into[position : position + chunk.nbytes])
            position += chunk.nbytes
        self.read_bytes += position
        self.busy_s += time.perf_counter() - started

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _read_chunk(self, chunk: ChunkSpec, into: memoryview) -> None:
        offset = 0
        while offset < chunk.nbytes:
            piece = into[offset : min(offset + self._piece_bytes, chunk.nbytes)]
            started = self._pacer.start() if self._pacer else 0.0
            done = self._read_piece(chunk.file, piece, offset)
            if done == 0:
                raise AgentFailure(
                    "pack_corrupt", f"{self._folder / chunk.file} ends at byte {offset} of {chunk.nbytes}"
                )
            if self._pacer:
                self._pacer.finish(started, done)
            offset += done

    def _read_piece(self, name: str, piece: memoryview, offset: int) -> int:
        try:
            done = os.preadv(self._file(name), [piece], offset)
        except FileNotFoundError:
            raise AgentFailure("pack_corrupt", f"{self._folder / name}: no such file") from None
        except OSError as error:
            if error.errno == errno.EINVAL and self.io_mode == DIRECT:
                self._fall_back()
                return self._read_piece(name, piece, offset)
            raise AgentFailure("io_error", f"{self._folder / name}: reading at byte {offset}: {error}") from error
        if self.io_mode == BUFFERED:
            os.posix_fadvise(self._file(name), offset, done, os.POSIX_FADV_DONTNEED)
        return done

    def _fall_back(self) -> None:
        self.close()
        self.io_mode = BUFFERED

    def _file(self, name: str) -> int:
        if name not in self._files:
            flags = os.O_RDONLY | os.O_CLOEXEC
            direct = os.O_DIRECT if self.io_mode == DIRECT else 0
            self._files[name] = os.open(self._folder / name, flags | direct)
            if self.io_mode == BUFFERED:  # what a push left in the page cache is not flash
                os.posix_fadvise(self._files[name], 0, 0, os.POSIX_FADV_DONTNEED)
        return self._files[name]
