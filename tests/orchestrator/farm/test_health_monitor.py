"""The watch over real virtual phones, with what happens to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import FarmError, PhoneUnreachable
from orchestrator.farm import health
from orchestrator.farm.connecting import connector
from orchestrator.farm.health_monitor import HealthMonitor, Pace
from orchestrator.farm.look_now import look_now, quarantine, release
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.settings import Settings
from tests.fakes.bench import ROOT
from tests.fakes.live_farm import until
from tests.fakes.phones import FakePhone, PhoneFactory

QUICK = Pace(tick=0.02, well=0.1, again=0.05, vitals=0.1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "home", "", "", "here")


@pytest.fixture
def registry() -> Registry:
    return MemoryRegistry()


@pytest.fixture
def watch(settings: Settings, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Iterator[HealthMonitor]:
    monkeypatch.setattr(health, "ANSWER_S", 1.0)
    stop = threading.Event()
    monitor = HealthMonitor(lambda: registry, connector(settings, timeout_s=1.0), "here", stop, QUICK)
    monitor.start()
    yield monitor
    stop.set()
    monitor.join(10)
    assert not monitor.is_alive()


def registered(phone: FakePhone, registry: Registry, state: DeviceState = DeviceState.READY) -> Device:
    device = Device(phone.name, phone.address, "tcp", "here", phone.serial, ROOT, state)
    registry.put_device(device)
    return device


def reaches(registry: Registry, name: str, state: DeviceState) -> Device:
    def reached() -> Device | None:
        device = registry.device(name)
        return device if device.state is state else None

    return until(reached, f"{name} becomes {state.value}, is {registry.device(name)}")


def states(registry: Registry, name: str) -> list[str]:
    return [event.data["state"] for event in reversed(registry.device_history(name, 50))]


@pytest.mark.usefixtures("watch")
def test_a_phone_that_goes_and_comes_back(virtual_phone: PhoneFactory, registry: Registry) -> None:
    phone = virtual_phone()
    registered(phone, registry)
    phone.offline(3600)
    away = reaches(registry, phone.name, DeviceState.OFFLINE)
    assert away.state_reason
    assert away.state_since > 0
    phone.offline(0)
    reaches(registry, phone.name, DeviceState.READY)
    assert states(registry, phone.name) == ["ready", "offline", "ready"]


@pytest.mark.usefixtures("watch")
def test_a_key_that_is_revoked_and_allowed(virtual_phone: PhoneFactory, registry: Registry) -> None:
    phone = virtual_phone()
    registered(phone, registry)
    phone.unauthorized()
    assert "does not trust our key" in reaches(registry, phone.name, DeviceState.UNAUTHORIZED).state_reason
    phone.authorize()
    reaches(registry, phone.name, DeviceState.READY)


@pytest.mark.usefixtures("watch")
def test_another_phone_at_the_address(virtual_phone: PhoneFactory, registry: Registry) -> None:
    phone = virtual_phone()
    registry.put_device(Device(phone.name, phone.address, "tcp", "here", "SOMEBODY", ROOT))
    assert "another phone answers" in reaches(registry, phone.name, DeviceState.OFFLINE).state_reason


@pytest.mark.usefixtures("watch")
def test_a_lost_connection_is_no_absence(virtual_phone: PhoneFactory, registry: Registry) -> None:
    phone, witness = virtual_phone("flaps"), virtual_phone("witness")
    registered(phone, registry)
    registered(witness, registry)
    for _ in range(5):
        phone.cut()
    witness.offline(3600)
    reaches(registry, "witness", DeviceState.OFFLINE)
    assert states(registry, "flaps") == ["ready"]


@pytest.mark.parametrize("state", [DeviceState.QUARANTINED, DeviceState.RETIRED])
@pytest.mark.usefixtures("watch")
def test_what_others_decided_stays(state: DeviceState, virtual_phone: PhoneFactory, registry: Registry) -> None:
    decided, witness = virtual_phone("decided"), virtual_phone("witness")
    registered(decided, registry, state)
    decided.offline(3600)
    registered(witness, registry)
    witness.offline(3600)
    reaches(registry, "witness", DeviceState.OFFLINE)
    assert registry.device("decided").state is state


@pytest.mark.usefixtures("watch")
def test_a_busy_phone_is_left_in_peace(virtual_phone: PhoneFactory, registry: Registry) -> None:
    busy, witness = virtual_phone("busy"), virtual_phone("witness")
    registered(busy, registry)
    held = registry.reserve("busy", "somebody", 3600)
    busy.offline(3600)
    registered(witness, registry)
    witness.offline(3600)
    reaches(registry, "witness", DeviceState.OFFLINE)
    assert registry.device("busy").state is DeviceState.BUSY
    registry.release(held)
    reaches(registry, "busy", DeviceState.OFFLINE)


def test_release_looks_first(virtual_phone: PhoneFactory, registry: Registry, settings: Settings) -> None:
    phone = virtual_phone()
    registered(phone, registry)
    with pytest.raises(FarmError, match="phone is ready, not quarantined"):
        release(phone.name, registry, connector(settings))
    quarantine(phone.name, "smells", registry)
    assert registry.device(phone.name).state_reason == "by hand: smells"
    assert release(phone.name, registry, connector(settings)) == (DeviceState.READY, "")
    assert registry.device(phone.name).state is DeviceState.READY
    quarantine(phone.name, "smells", registry)
    phone.offline(3600)
    state, reason = release(phone.name, registry, connector(settings))
    assert (state, registry.device(phone.name).state) == (DeviceState.OFFLINE, DeviceState.OFFLINE)
    assert reason


def test_a_phone_that_says_nothing_holds_up_no_look(registry: Registry) -> None:
    forever = threading.Event()

    def connect(device: Device) -> None:
        if device.name == "stalls":
            forever.wait(60)
        raise PhoneUnreachable("gone")

    phones = [Device(name, "", "tcp", "here", "", ROOT) for name in ("stalls", "gone")]
    found = look_now(phones, connect, patience_s=0.3)  # type: ignore[arg-type]
    forever.set()
    assert found["stalls"].problem == "no answer within 0.3 s"
    assert found["gone"].problem == "gone"
