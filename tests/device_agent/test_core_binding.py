"""Threads are where a job wants them while it runs, and where they were afterwards."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from device_agent.core_binding import held_to
from device_agent.model.weights import open_streamed
from device_agent.protocol import ANYWHERE, CoresSpec
from device_agent.telemetry.topology import core_capacities
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

ALLOWED = os.sched_getaffinity(0)
needs_two = pytest.mark.skipif(len(ALLOWED) < 2, reason="one core leaves nothing to choose")
FIRST, LAST = min(ALLOWED), max(ALLOWED)


@needs_two
def test_threads_go_there_and_back() -> None:
    stop = threading.Event()
    older = threading.Thread(target=stop.wait, daemon=True)
    older.start()
    assert older.native_id
    with held_to(CoresSpec(False, (FIRST,), (LAST,))) as readers:
        assert os.sched_getaffinity(0) == os.sched_getaffinity(older.native_id) == {FIRST}
        assert readers == (LAST,)
    assert os.sched_getaffinity(0) == os.sched_getaffinity(older.native_id) == ALLOWED
    stop.set()
    older.join()


def test_readers_may_be_anywhere_though_the_kernels_may_not() -> None:
    with held_to(CoresSpec(False, (FIRST,))) as readers:
        assert set(readers) == ALLOWED
    with held_to(ANYWHERE) as readers:
        assert readers == ()
        assert os.sched_getaffinity(0) == ALLOWED


@needs_two
def test_flash_readers_run_on_their_cores(tmp_path: Path) -> None:
    weights = open_streamed(write_pack(tmp_path, TinyModel()), 2, 16, None, reader_cores=(LAST,))
    try:
        weights.begin_pass()
        with weights.layer(0):  # by now they have begun, and a thread's first act is to go to its core
            ids = [t.native_id for t in threading.enumerate() if t.name == "flash-reader-0"]
            assert [os.sched_getaffinity(thread) for thread in ids if thread] == [{LAST}]
            assert os.sched_getaffinity(0) == ALLOWED
    finally:
        weights.close()


def sysfs(root: Path, file: str, values: dict[int, str]) -> None:
    for core, value in values.items():
        path = root / f"sys/devices/system/cpu/cpu{core}/{file}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)


@needs_two
def test_capacities_are_the_kernels_then_clocks_then_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVER_PHONE", str(tmp_path))
    assert core_capacities() == dict.fromkeys(sorted(ALLOWED), 1.0)
    sysfs(tmp_path, "cpufreq/cpuinfo_max_freq", dict.fromkeys(ALLOWED, "2000000") | {LAST: "3300000"})
    assert core_capacities()[LAST] == 3.3e6
    sysfs(tmp_path, "cpu_capacity", dict.fromkeys(ALLOWED, "380") | {LAST: "1024"})
    assert core_capacities()[LAST] == 1024
    sysfs(tmp_path, "cpu_capacity", {FIRST: "0"})  # a vendor's nonsense: clocks then
    assert core_capacities()[LAST] == 3.3e6
