"""The phones' states as they are now: what the farm that is up wrote last, or a look at each when it is down."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.entities import Device
from orchestrator.farm.connecting import connector
from orchestrator.farm.health import ANSWER_S
from orchestrator.farm.health_rules import JUDGED, Sighting
from orchestrator.farm.look_now import as_seen, look_now
from orchestrator.registry.contract import Registry
from orchestrator.service import state
from orchestrator.settings import Settings


def live(settings: Settings, registry: Registry) -> list[Device]:
    """All, by name. What a look finds is shown, not recorded: the farm's own watch has more patience. Virtual phones
    that do not run are left as they are, since they start when they are needed."""
    devices = registry.devices()
    service = state.read(settings)
    if service is not None and service.process() is not None:
        return devices
    looked_at = [d for d in devices if d.host == settings.host and d.state in JUDGED and not d.simulated]
    found = look_now(looked_at, connector(settings, start=False, timeout_s=ANSWER_S))
    return [_seen(device, found) for device in devices]


def _seen(device: Device, found: dict[str, Sighting]) -> Device:
    if device.name not in found:
        return device
    state_now, reason = as_seen(device, found[device.name])
    since = device.state_since if state_now is device.state else 0.0
    return replace(device, state=state_now, state_reason=reason, state_since=since)
