"""Fifty phones on one machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.health import probe
from tests.fakes.phones import FakePhone, start_phone

N_PHONES, MOST_BYTES = 50, 2_000_000_000
PROFILES = ("oneplus12", "pixel8", "midrange")


@pytest.fixture
def phones(tmp_path: Path) -> Iterator[list[FakePhone]]:
    started: list[FakePhone] = []
    try:
        started.extend(start_phone(tmp_path / f"phone-{i}", f"phone-{i}", PROFILES[i % 3]) for i in range(N_PHONES))
        yield started
    finally:
        for phone in started:
            phone.process.terminate()
        for phone in started:
            phone.stop()


@pytest.mark.slow
def test_fifty_phones_fit_into_two_gigabytes(
    phones: list[FakePhone], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda phone: answers(phone, tmp_path / "adbkey"), phones))
    pss = [proportional_bytes(phone.process.pid) for phone in phones]
    record_property("pss_mb", round(sum(pss) / 1e6))
    print(f"{N_PHONES} phones: {sum(pss) / 1e6:.0f} MB, the largest {max(pss) / 1e6:.1f} MB")
    assert sum(pss) < MOST_BYTES


def answers(phone: FakePhone, key: Path) -> None:
    with open_transport(phone.address, key) as transport:
        transport.connect(30)
        probe(transport)


def proportional_bytes(pid: int) -> int:
    """Resident memory, what is shared divided by those who share it."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024
