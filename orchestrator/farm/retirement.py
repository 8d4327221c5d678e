"""Take a phone out of the farm for good; what it measured stays in the registry."""

from __future__ import annotations

from orchestrator.entities import DeviceState
from orchestrator.errors import FarmError
from orchestrator.farm import virtual_phones
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings


def retire(name: str, settings: Settings, registry: Registry) -> bool:
    """True when a virtual phone of this host was removed with its folder. Raises UnknownName, and FarmError while an
    attempt runs on the phone."""
    registry.device(name)
    if busy := next((attempt for attempt in registry.running() if attempt.device == name), None):
        raise FarmError(
            f"phone {name} is busy with trial {busy.trial_id[:12]}",
            "Wait until it is done, or cancel its sweep (Ctrl-C on lever sweep).",
        )
    registry.set_device_state(name, DeviceState.RETIRED, "retired by hand")
    if name not in virtual_phones.names(settings):
        return False
    virtual_phones.remove(settings, name)
    return True
