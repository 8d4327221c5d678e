"""Which phone is meant: what people type, what the phone says of itself, and what the registry knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import UsageError, WrongPhone
from orchestrator.farm import virtual_phones
from orchestrator.settings import Settings

HOST_PORT = re.compile(r"(?P<host>[A-Za-z0-9._-]+):(?P<port>\d{1,5})")
SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
HINT = (
    "Use virtual:PROFILE, e.g. virtual:oneplus12; HOST:PORT, e.g. 192.168.1.20:5555; usb:SERIAL, as `lever phones "
    "discover` lists it; or wireless:HOST:PORT, after `lever phones pair`."
)


@dataclass(frozen=True)
class Target:
    profile: str | None  # of a virtual phone of ours
    address: str = ""  # tcp:HOST:PORT, wireless:HOST:PORT or usb:SERIAL of any other phone


def parse_target(text: str) -> Target:
    """Raises UsageError saying what can be typed."""
    if text.startswith("virtual:"):
        return Target(virtual_phones.checked_profile(text.removeprefix("virtual:")))
    if text.startswith("usb:"):
        if not SERIAL.fullmatch(text.removeprefix("usb:")):
            raise UsageError(f"{text!r}: that is not a serial number", HINT)
        return Target(None, text)
    kind = "wireless" if text.startswith("wireless:") else "tcp"
    match = HOST_PORT.fullmatch(text.removeprefix(f"{kind}:"))
    if match is None:
        raise UsageError(f"{text!r} is none of virtual:PROFILE, HOST:PORT, usb:SERIAL and wireless:HOST:PORT", HINT)
    if not 1 <= int(match["port"]) <= 65535:
        raise UsageError(f"{match['port']} is not a TCP port", HINT)
    return Target(None, f"{kind}:{match['host']}:{int(match['port'])}")


def to_register(device: Device, settings: Settings) -> str:
    """The command that registers a phone of ours again, which repairs it."""
    ours = device.simulated and device.name in virtual_phones.names(settings)
    target = f"virtual:{device.facts['profile']}" if ours else device.address.removeprefix("tcp:")
    return f"lever phones register {target} --name {device.name}"


def free_name(base: str, devices: Sequence[Device]) -> str:
    """`base`, or `base-2`, `base-3`… when phones in use are called so; a retired phone's name is free again."""
    taken = {device.name for device in _in_use(devices)}
    base = re.sub(r"[^a-z0-9._-]+", "-", base.lower()).strip("-.") or "phone"
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name


def identify(
    address: str, name: str | None, facts: dict[str, Any], root: str, settings: Settings, devices: Sequence[Device]
) -> Device:
    """The device that answered at `address` with `facts` (its serial is taken out of them). Raises WrongPhone when the
    name or the address belongs to another phone, or the phone is registered under another name."""
    serial = str(facts.pop("serial"))
    if not serial:
        raise WrongPhone(
            f"the phone at {address.removeprefix('tcp:')} tells no serial number (ro.serialno)",
            "Restart the phone; without a serial number it could not be told from another one.",
        )
    virtual = "profile" in facts
    known = next((device for device in devices if device.serial == serial), None)
    name = name or (known.name if known else free_name(facts.get("profile") or facts["model"], devices))
    for device in _in_use(devices):
        _check_other(device, serial, name, address)
    kind = "virtual" if virtual else address.partition(":")[0]
    tags = known.tags if known else ()
    return Device(name, address, kind, settings.host, serial, root, facts=facts, tags=tags)


def _check_other(device: Device, serial: str, name: str, address: str) -> None:
    remedy = f"If that is meant to be, first run: lever phones retire {device.name}"
    if device.serial == serial and device.name != name:
        raise WrongPhone(f"this phone ({serial}) is registered as {device.name} already", remedy)
    if device.serial != serial and device.name == name:
        raise WrongPhone(
            f"the name {name} belongs to the phone {device.serial}; the one at {address.removeprefix('tcp:')} calls "
            f"itself {serial}",
            remedy,
        )
    # virtual phones get any free port whenever they start: theirs say nothing about identity
    if device.serial != serial and device.address == address and not device.simulated:
        raise WrongPhone(
            f"{address.removeprefix('tcp:')} was the address of {device.name} ({device.serial}); the phone there now "
            f"calls itself {serial}",
            remedy,
        )


def _in_use(devices: Sequence[Device]) -> list[Device]:
    return [device for device in devices if device.state != DeviceState.RETIRED]
