"""Reading for the sake of reading: how fast the flash is, and what computing costs meanwhile."""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from device_agent.failure import AgentFailure
from device_agent.model.extent_reader import ExtentReader, Piece
from device_agent.model.memory import Region
from device_agent.model.pacer import Pacer
from device_agent.model.pack import Pack
from device_agent.protocol import ChunkSpec, ExtentSpec

MB = 1_000_000
MIB = 1 << 20
SCRATCH_BYTES = 32 * MIB
CHUNKS_KIB = (256, 1024, 4096, 16384)
THREADS = (1, 2, 4)
PROBE_S = 0.3  # of reading in one way


def bandwidth_table(
    pack: Pack, cap_mb_s: float | None, cores: Collection[int] = ()
) -> tuple[tuple[int, int, float], ...]:
    """(chunk KiB, reader threads, MB/s) for each of CHUNKS_KIB and THREADS, read on `cores`. Raises AgentFailure as
    ExtentReader."""
    return tuple(
        (kib, threads, _bandwidth(pack, kib, threads, cap_mb_s, cores)) for kib in CHUNKS_KIB for threads in THREADS
    )


@contextmanager
def flash_busy(
    pack: Pack, chunk_kib: int, threads: int, cap_mb_s: float | None, cores: Collection[int] = ()
) -> Iterator[ExtentReader]:
    """The pack's layers are read over and over on `cores` within the block. Raises at its end what a reader met."""
    with _reading(pack.folder, pack.layers, chunk_kib, threads, cap_mb_s, cores) as reader:
        yield reader


@contextmanager
def _reading(
    folder: Path,
    extents: Sequence[ExtentSpec],
    chunk_kib: int,
    threads: int,
    cap_mb_s: float | None,
    cores: Collection[int] = (),
) -> Iterator[ExtentReader]:
    pacer = Pacer(cap_mb_s * MB) if cap_mb_s else None
    reader, stop = ExtentReader(folder, chunk_kib * 1024, pacer), threading.Event()
    failures: list[AgentFailure] = []
    pieces = itertools.cycle([replace(piece, position=0) for extent in extents for piece in reader.pieces(extent)])
    lock = threading.Lock()

    def work() -> None:
        if cores:
            os.sched_setaffinity(0, cores)  # of this thread
        buffer = Region(chunk_kib * 1024)
        try:
            while not stop.is_set():
                with lock:
                    piece: Piece = next(pieces)
                reader.read_piece(piece, buffer.view)
        except AgentFailure as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield reader
    finally:
        stop.set()
        for worker in workers:
            worker.join()
        reader.close()
    if failures:
        raise failures[0]


def scratch_bandwidth(folder: Path) -> tuple[float, str]:
    """MB/s of reading a file written for this in `folder` (4 MiB requests, two at a time), and the io_mode that it was
    read with. Raises AgentFailure, OSError."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="flash-") as scratch:
        file = Path(scratch) / "scratch.bin"
        with file.open("wb") as out:
            for _ in range(SCRATCH_BYTES // MIB):
                out.write(os.urandom(MIB))  # compressed or deduplicated storage would flatter anything else
            os.fsync(out.fileno())
        chunk = ChunkSpec(file.name, SCRATCH_BYTES, "")
        with _reading(file.parent, [ExtentSpec("scratch", SCRATCH_BYTES, (chunk,))], 4096, 2, None) as reader:
            time.sleep(PROBE_S)  # the readers work meanwhile: what they get through is measured
        return round(reader.read_bytes / MB / reader.busy_s, 1), reader.io_mode


def _bandwidth(pack: Pack, chunk_kib: int, threads: int, cap_mb_s: float | None, cores: Collection[int]) -> float:
    with flash_busy(pack, chunk_kib, threads, cap_mb_s, cores) as reader:
        time.sleep(PROBE_S)  # as above
    return round(reader.read_bytes / MB / reader.busy_s, 1)  # what was under way at the end included
