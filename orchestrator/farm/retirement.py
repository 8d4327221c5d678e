"""Take a phone out of the farm for good; what it measured stays in the registry."""

from __future__ import annotations

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import FarmError
from orchestrator.farm import job_folder, quiet, virtual_phones
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.connecting import Connect
from orchestrator.farm.holding import undisturbed
from orchestrator.farm.provisioning import run
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings

WIPE_S = 120.0


def retire(name: str, settings: Settings, registry: Registry) -> bool:
    """True when a virtual phone of this host was removed with its folder. Raises UnknownName, and FarmError while an
    attempt runs on the phone."""
    _check_idle(name, registry)
    registry.set_device_state(name, DeviceState.RETIRED, "retired by hand")
    if name not in virtual_phones.names(settings):
        return False
    virtual_phones.remove(settings, name)
    return True


def wipe(name: str, registry: Registry, connect: Connect) -> str:
    """End everything of ours on the phone and remove our folder there; returns its path. The phone goes on trusting our
    key: only its owner can revoke that. Raises UnknownName, FarmError while an attempt runs there, PhoneError."""
    _check_idle(name, registry)
    device = registry.device(name)
    with undisturbed(device, registry, "wipe"):
        _wipe(device, connect)
    return device.root


def _wipe(device: Device, connect: Connect) -> None:
    root = quote(device.root)
    with connect(device) as phone:
        job_folder.sweep(phone, device.root, keep="")
        quiet.put_back(phone, device.root, keep="")
        run(phone, f"rm -rf {root} && [ ! -e {root} ]", WIPE_S)


def _check_idle(name: str, registry: Registry) -> None:
    registry.device(name)
    if busy := next((attempt for attempt in registry.running() if attempt.device == name), None):
        raise FarmError(
            f"phone {name} is busy with trial {busy.trial_id[:12]}",
            "Wait until it is done, or cancel its sweep (Ctrl-C on lever sweep).",
        )
