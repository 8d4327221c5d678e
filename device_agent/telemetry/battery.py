"""The battery as Android's battery service tells it (`dumpsys battery`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from device_agent.telemetry.reading import Missing, Reading, number

_ROW = re.compile(r"^  ([A-Za-z ]+): (\S+)$", re.MULTILINE)
_POWERED = ("AC powered", "USB powered", "Wireless powered", "Dock powered")
_FAKED = Missing("faked: UPDATES STOPPED; `dumpsys battery reset` ends it")
_VOLTS = (2.5, 5.0)  # of one cell


@dataclass(frozen=True)
class BatteryState:
    level_percent: Reading
    voltage_v: Reading
    temperature_c: Reading
    counter_uah: Reading
    plugged: bool | Missing


def battery_state(text: str | Missing) -> BatteryState:
    """From the service's dump. Faked values are no values."""
    if isinstance(text, Missing) or "(UPDATES STOPPED" in text:
        why = text if isinstance(text, Missing) else _FAKED
        return BatteryState(why, why, why, why, why)
    rows: dict[str, str] = dict(_ROW.findall(text))

    def row(name: str) -> str | Missing:
        return rows.get(name, Missing(f"no {name!r}"))

    powered = [rows[name] for name in _POWERED if name in rows]
    return BatteryState(
        number(row("level"), (0, 100)),
        volts(row("voltage")),
        number(row("temperature"), (-30, 100), 0.1),
        number(row("Charge counter"), (1, 1e9)),
        "true" in powered if powered else Missing("no 'powered'"),
    )


def volts(text: str | Missing) -> Reading:
    """Of a cell, whichever unit a vendor uses: V, mV or µV."""
    for scale in (1.0, 1e-3, 1e-6):
        if not isinstance(value := number(text, _VOLTS, scale), Missing):
            return value
    return number(text, _VOLTS, 1e-3)
