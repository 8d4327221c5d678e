"""Break a virtual phone of this host on purpose, over its control socket (docs/virtual-phone.md)."""

from __future__ import annotations

import difflib
import json

from device_agent.virtual.ask import ask
from device_agent.virtual.fault_list import FAULTS
from orchestrator.errors import FarmError, UnknownName, UsageError
from orchestrator.farm import virtual_phones
from orchestrator.settings import Settings

__all__ = ["FAULTS", "active", "clear", "inflict", "lasts"]
USAGE = 2  # exit code of a control command that was given something wrong


def inflict(settings: Settings, name: str, fault: str, number: str | None = None) -> None:
    """Raises UnknownName for a phone that is no virtual one of this host, UsageError, and FarmError when the phone does
    not run or the fault found nothing to hurt."""
    if fault not in FAULTS:
        near = difflib.get_close_matches(fault, FAULTS, 1)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no fault {fault!r}", f"{meant}List them: lever phones fault {name}")
    _told(settings, name, fault, *([number] if number is not None else []))


def clear(settings: Settings, name: str) -> None:
    """Everything as it was made. Raises as inflict does."""
    _told(settings, name, "clear")


def active(settings: Settings, name: str) -> dict[str, str]:
    """Lasting fault → its number. Raises as inflict does."""
    found: dict[str, str] = json.loads(_told(settings, name, "active"))
    return found


def lasts(fault: str) -> bool:
    return FAULTS[fault].lasts


def _told(settings: Settings, name: str, *words: str) -> str:
    if name not in (known := virtual_phones.names(settings)):
        listed = (
            f"Virtual phones here: {', '.join(known)}." if known else "There are none: lever phones register virtual:…"
        )
        raise UnknownName(f"{name!r} is no virtual phone of this host: only those can be broken on purpose", listed)
    try:
        code, text = ask(settings.phones / name, *words)
    except OSError as error:
        raise FarmError(
            f"virtual phone {name} does not answer: {error.strerror or error}", "Start it: lever up, or use it."
        ) from error
    if code == USAGE:
        raise UsageError(f"phone {name}: {text.strip()}", f"List the faults: lever phones fault {name}")
    if code:
        raise FarmError(f"phone {name}: {text.strip()}", "Try again while an attempt runs there.")
    return text
