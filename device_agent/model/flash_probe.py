"""Reading a pack's layers for the sake of reading: how fast the flash is, and what computing costs meanwhile."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from device_agent.failure import AgentFailure
from device_agent.model.extent_reader import ExtentReader, Piece
from device_agent.model.memory import Region
from device_agent.model.pacer import Pacer
from device_agent.model.pack import Pack

MB = 1_000_000
CHUNKS_KIB = (256, 1024, 4096, 16384)
THREADS = (1, 2, 4)
PROBE_S = 0.3  # of reading in one way


def bandwidth_table(pack: Pack, cap_mb_s: float | None) -> tuple[tuple[int, int, float], ...]:
    """(chunk KiB, reader threads, MB/s) for each of CHUNKS_KIB and THREADS. Raises AgentFailure as ExtentReader."""
    return tuple((kib, threads, _bandwidth(pack, kib, threads, cap_mb_s)) for kib in CHUNKS_KIB for threads in THREADS)


@contextmanager
def flash_busy(pack: Pack, chunk_kib: int, threads: int, cap_mb_s: float | None) -> Iterator[ExtentReader]:
    """The pack's layers are read over and over within the block. Raises at its end what a reader met."""
    pacer = Pacer(cap_mb_s * MB) if cap_mb_s else None
    reader, stop = ExtentReader(pack.folder, chunk_kib * 1024, pacer), threading.Event()
    failures: list[AgentFailure] = []
    pieces = itertools.cycle([replace(piece, position=0) for layer in pack.layers for piece in reader.pieces(layer)])
    lock = threading.Lock()

    def work() -> None:
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


def _bandwidth(pack: Pack, chunk_kib: int, threads: int, cap_mb_s: float | None) -> float:
    with flash_busy(pack, chunk_kib, threads, cap_mb_s) as reader:
        time.sleep(PROBE_S)
    return round(reader.read_bytes / MB / reader.busy_s, 1)  # what was under way at the end included
