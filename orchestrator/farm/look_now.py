"""Look at phones once, now, all at the same time: for people, and before a phone is let back into the farm."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import FarmError
from orchestrator.farm.connecting import Connect
from orchestrator.farm.health import Lookout
from orchestrator.farm.health_rules import JUDGED, MISSES, Sighting, Streak, judge
from orchestrator.registry.contract import Registry

PATIENCE_S = 6.0


def look_now(devices: Sequence[Device], connect: Connect, patience_s: float = PATIENCE_S) -> dict[str, Sighting]:
    """By name. A phone that says nothing within `patience_s` did not answer, and holds up nobody."""
    found: dict[str, Sighting] = {}

    def work(device: Device) -> None:
        lookout = Lookout(connect)
        found[device.name] = lookout.look(device, vitals=True)
        lookout.close()

    threads = [threading.Thread(target=work, args=(device,), daemon=True) for device in devices]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    silent = Sighting(f"no answer within {patience_s:g} s")
    return {device.name: found.get(device.name, silent) for device in devices}


def as_seen(device: Device, sighting: Sighting) -> tuple[DeviceState, str]:
    """The state that one look would give it, were it the last of many alike; what others decide stays."""
    if device.state not in JUDGED:
        return device.state, device.state_reason
    state, reason = judge(device.state, Streak(MISSES, MISSES), sighting)
    return state, reason or (device.state_reason if state is device.state else "")


def release(name: str, registry: Registry, connect: Connect) -> tuple[DeviceState, str]:
    """Let a quarantined phone back into the farm, in the state that it is in now, with its reason. Raises UnknownName,
    FarmError for a phone that is not in quarantine."""
    device = registry.device(name)
    if device.state is not DeviceState.QUARANTINED:
        raise FarmError(
            f"phone {name} is {device.state.value}, not quarantined",
            f"Nothing is to be released; see: lever phones show {name}",
        )
    sighting = look_now([device], connect)[name]
    state, reason = judge(DeviceState.READY, Streak(MISSES, MISSES), sighting)
    registry.set_device_state(name, state, reason or "released by hand", (DeviceState.QUARANTINED,))
    return state, reason


def quarantine(name: str, reason: str, registry: Registry) -> None:
    """Keep trials away from a phone until it is released; one that runs there goes on. Raises UnknownName, FarmError
    for a retired phone."""
    if registry.device(name).state is DeviceState.RETIRED:
        raise FarmError(f"phone {name} is retired", "No trial runs there anyway.")
    shown = "".join(c for c in " ".join(reason.split()) if c.isprintable())  # it is printed on people's terminals
    registry.set_device_state(name, DeviceState.QUARANTINED, f"by hand: {shown}")
