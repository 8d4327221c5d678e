"""Thirty virtual phones, of which five stall, three flap and two revoke our key: nobody else waits for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.entities import Device, DeviceState
from orchestrator.farm.connecting import connector
from orchestrator.farm.health_monitor import HealthMonitor, Pace
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.settings import Settings
from tests.fakes.bench import ROOT
from tests.fakes.live_farm import until
from tests.fakes.phones import FakePhone, start_phone

STALL = [f"stalls-{n}" for n in range(5)]
FLAP = [f"flaps-{n}" for n in range(3)]
REFUSE = [f"refuses-{n}" for n in range(2)]
WELL = [f"well-{n}" for n in range(20)]
PACE = Pace(tick=0.1, well=0.5, again=0.2, vitals=2.0)


@contextmanager
def running(folder: Path) -> Iterator[dict[str, FakePhone]]:
    with ThreadPoolExecutor(4) as several:
        started = several.map(lambda name: start_phone(folder / name, name), STALL + FLAP + REFUSE + WELL)
        phones = {phone.name: phone for phone in started}
    try:
        yield phones
    finally:
        with ThreadPoolExecutor(8) as several:
            list(several.map(FakePhone.stop, phones.values()))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_bad_phones_hold_up_nobody(tmp_path: Path) -> None:
    settings, registry, stop = Settings(tmp_path / "home", "", "", "here"), MemoryRegistry(), threading.Event()
    with running(tmp_path) as phones:
        for phone in phones.values():
            registry.put_device(Device(phone.name, phone.address, "tcp", "here", phone.serial, ROOT))
        monitor = HealthMonitor(lambda: registry, connector(settings), "here", stop, PACE)
        monitor.start()
        try:
            for name in STALL:
                phones[name].tell("stall")
            for name in REFUSE:
                phones[name].unauthorized()
            flapping = threading.Thread(target=_flap, args=([phones[name] for name in FLAP], stop), daemon=True)
            flapping.start()
            # a well phone that goes is noticed, and one that comes back too, while all the others are unwell
            for name in WELL[:3]:
                phones[name].offline(3600)
            until(lambda: _all(registry, WELL[:3], DeviceState.OFFLINE), "three go", 120)
            for name in WELL[:3]:
                phones[name].offline(0)
            until(lambda: _all(registry, WELL[:3], DeviceState.READY), "three come back", 120)
            until(lambda: _all(registry, STALL, DeviceState.OFFLINE), "five stall", 120)
            until(lambda: _all(registry, REFUSE, DeviceState.UNAUTHORIZED), "two refuse", 120)
            assert _all(registry, WELL, DeviceState.READY)
            for name in WELL[3:]:
                assert [e.data["state"] for e in registry.device_history(name, 9)] == ["ready"], name
            for name in FLAP:
                assert len(registry.device_history(name, 50)) <= 1 + 2 * 3, f"{name}: its states flap as it does"
        finally:
            stop.set()
            monitor.join(30)


def _flap(phones: list[FakePhone], stop: threading.Event) -> None:
    """Away for a moment every moment: shorter than what makes a phone offline."""
    while not stop.wait(0.4):
        for phone in phones:
            phone.tell("offline", "0.1")


def _all(registry: MemoryRegistry, names: list[str], state: DeviceState) -> bool:
    return all(registry.device(name).state is state for name in names)
