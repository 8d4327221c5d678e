"""What a phone tells of its battery and its heat, as the shell user may read it: one round trip.

What cannot be read is None, never zero. Quirks: `dumpsys battery` says "(UPDATES STOPPED)" when somebody faked its
values, thermalservice says `IsStatusOverride`; the current's unit and sign differ between vendors, so it is only looked
for here; many phones deny the node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.farm.adb.contract import Transport

READ_S = 15.0
BATTERY_NODES = "/sys/class/power_supply/battery"
COMMAND = (
    "dumpsys battery 2>/dev/null; echo '>'; dumpsys thermalservice 2>/dev/null; echo '>'; "
    f"cat {BATTERY_NODES}/current_now 2>/dev/null; echo '>'; cat {BATTERY_NODES}/voltage_now 2>/dev/null; :"
)
CHARGING = {2, 5}  # BatteryManager's BATTERY_STATUS_CHARGING and _FULL


@dataclass(frozen=True)
class Vitals:
    battery_percent: int | None = None
    battery_c: float | None = None
    charging: bool | None = None  # or full, or plugged in
    battery_faked: bool = False
    thermal_status: int | None = None  # PowerManager's THERMAL_STATUS: 0 none, 1 light, 2 moderate, 3 severe, …
    thermal_faked: bool = False
    current: int | None = None  # as the node has it, unit and sign unknown
    voltage: int | None = None


def read_vitals(phone: Transport) -> Vitals:
    """Raises PhoneError."""
    battery, thermal, current, voltage = (phone.shell(COMMAND, READ_S).stdout + "\n>" * 3).split("\n>")[:4]
    level, scale = _number(battery, "level"), _number(battery, "scale") or 100
    tenths, status = _number(battery, "temperature"), _number(battery, "status")
    powered = re.search(r"^\s*\w[\w ]* powered: true", battery, re.MULTILINE) is not None
    return Vitals(
        battery_percent=None if level is None else round(100 * level / scale),
        battery_c=None if tenths is None else tenths / 10,
        charging=None if status is None and not powered else powered or status in CHARGING,
        battery_faked="UPDATES STOPPED" in battery,
        thermal_status=_number(thermal, "Thermal Status"),
        thermal_faked="IsStatusOverride: true" in thermal,
        current=_whole(current),
        voltage=_whole(voltage),
    )


def summary(vitals: Vitals) -> str:
    """For a person, in one line."""
    battery = "battery: unavailable"
    if vitals.battery_percent is not None:
        power = {True: ", plugged in or charging", False: ", discharging", None: ""}[vitals.charging]
        heat = "" if vitals.battery_c is None else f", {vitals.battery_c:g} °C"
        battery = f"battery {vitals.battery_percent} %{heat}{power}{' (FAKED)' if vitals.battery_faked else ''}"
    thermal = "unavailable" if vitals.thermal_status is None else f"status {vitals.thermal_status}"
    current = "unavailable" if vitals.current is None else "readable, unit and sign not calibrated"
    return f"{battery}; thermal {thermal}{' (OVERRIDDEN)' if vitals.thermal_faked else ''}; current {current}"


def as_facts(vitals: Vitals) -> dict[str, str]:
    """Which sensors the phone has."""
    known = {
        "battery": vitals.battery_percent,
        "battery_temperature": vitals.battery_c,
        "thermal_status": vitals.thermal_status,
        "current": vitals.current,
        "voltage": vitals.voltage,
    }
    return {name: "unavailable" if value is None else "readable" for name, value in known.items()}


def _number(text: str, key: str) -> int | None:
    found = re.search(rf"^\s*{key}: (-?\d{{1,9}})\s*$", text, re.MULTILINE)
    return int(found[1]) if found else None


def _whole(text: str) -> int | None:
    found = re.fullmatch(r"\s*(-?\d{1,12})\s*", text)
    return int(found[1]) if found else None
