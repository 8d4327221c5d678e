"""Reading extents past the page cache: O_DIRECT in large pieces, or buffered and dropped where that is refused."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from device_agent.failure import AgentFailure
from device_agent.model.pacer import Pacer
from device_agent.protocol import ExtentSpec

DIRECT, BUFFERED = "direct", "buffered"


@dataclass(frozen=True)
class Piece:
    """One read of one file, and where it goes in the extent."""

    file: str
    offset: int
    position: int  # in the extent
    nbytes: int
    file_bytes: int


class ExtentReader:
    """Fills page-aligned memory with extents of one pack; any number of threads may read pieces at once.

    `io_mode` is `direct` until the filesystem refuses O_DIRECT (EINVAL: tmpfs, overlays, some f2fs), then `buffered`.
    """

    def __init__(self, folder: Path, piece_bytes: int, pacer: Pacer | None = None) -> None:
        self.io_mode = DIRECT
        self.read_bytes, self.busy_s = 0, 0.0  # so far; busy: while any thread read or waited for the pacer
        self._folder = folder
        self._piece_bytes = piece_bytes
        self._pacer = pacer
        self._files: dict[tuple[str, str], int] = {}  # by name and io_mode
        self._lock = threading.Lock()
        self._reading, self._since_s = 0, 0.0

    def pieces(self, extent: ExtentSpec) -> list[Piece]:
        """What to read for `extent`, in order."""
        found, position = [], 0
        for chunk in extent.chunks:
            for offset in range(0, chunk.nbytes, self._piece_bytes):
                nbytes = min(self._piece_bytes, chunk.nbytes - offset)
                found.append(Piece(chunk.file, offset, position + offset, nbytes, chunk.nbytes))
            position += chunk.nbytes
        return found

    def read(self, extent: ExtentSpec, into: memoryview) -> None:
        """Read all of `extent` to the start of `into`; raises as read_piece does."""
        for piece in self.pieces(extent):
            self.read_piece(piece, into)

    def read_piece(self, piece: Piece, into: memoryview) -> None:
        """Read `piece` to its position in `into`.

        Raises AgentFailure: pack_corrupt when a file is too short or gone, io_error when the device fails.
        """
        with self._counted(piece.nbytes):
            done = 0
            while done < piece.nbytes:
                started = self._pacer.start() if self._pacer else 0.0
                rest = into[piece.position + done : piece.position + piece.nbytes]
                nbytes = self._read(piece.file, rest, piece.offset + done)
                if nbytes < len(rest):
                    self._check_size(piece)
                if self._pacer:
                    self._pacer.finish(started, nbytes)
                done += nbytes

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    @contextmanager
    def _counted(self, nbytes: int) -> Iterator[None]:
        with self._lock:
            if self._reading == 0:
                self._since_s = time.perf_counter()
            self._reading += 1
        try:
            yield
            with self._lock:
                self.read_bytes += nbytes
        finally:
            with self._lock:
                self._reading -= 1
                if self._reading == 0:
                    self.busy_s += time.perf_counter() - self._since_s

    def _read(self, name: str, into: memoryview, offset: int) -> int:
        mode = self.io_mode
        try:
            file = self._file(name, mode)
            done = os.preadv(file, [into], offset)
        except FileNotFoundError:
            raise AgentFailure("pack_corrupt", f"{self._folder / name}: no such file") from None
        except OSError as error:
            if error.errno == errno.EINVAL and mode == DIRECT:
                self.io_mode = BUFFERED
                return self._read(name, into, offset)
            raise AgentFailure("io_error", f"{self._folder / name}: reading at byte {offset}: {error}") from error
        if mode == BUFFERED:
            os.posix_fadvise(file, offset, done, os.POSIX_FADV_DONTNEED)
        return done

    def _check_size(self, piece: Piece) -> None:
        file = self._folder / piece.file
        if (size := file.stat().st_size) < piece.file_bytes:
            raise AgentFailure("pack_corrupt", f"{file} ends at byte {size} of {piece.file_bytes}")

    def _file(self, name: str, mode: str) -> int:
        with self._lock:
            if (name, mode) not in self._files:
                direct = os.O_DIRECT if mode == DIRECT else 0
                file = self._files[name, mode] = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC | direct)
                if mode == BUFFERED:  # what a push left in the page cache is not flash
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            return self._files[name, mode]
