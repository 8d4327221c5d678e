"""Heat as Android's thermal service tells it (`dumpsys thermalservice`)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from device_agent.telemetry.reading import Missing, Reading, number

_SENSOR = re.compile(r"Temperature\{mValue=([^,]+), mType=\d+, mName=([^,}]+)")
_STATUS = re.compile(r"^Thermal Status: (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class ThermalState:
    status: Reading  # 0 none … 6 shutdown
    celsius: dict[str, float]  # by sensor, those that tell; the current ones rather than the cached


def thermal_state(text: str | Missing) -> ThermalState:
    if isinstance(text, Missing):
        return ThermalState(text, {})
    read = {name: float(value) for value, name in _SENSOR.findall(text) if _is_number(value)}
    celsius = {name: value for name, value in read.items() if math.isfinite(value) and -30 < value < 150}
    if "IsStatusOverride: true" in text:
        return ThermalState(Missing("overridden; `cmd thermalservice reset` ends it"), celsius)
    found = _STATUS.search(text)
    return ThermalState(number(found[1], (0, 6)) if found else Missing("no 'Thermal Status'"), celsius)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
