"""What of a phone's telemetry can be read, in words: looked at when the agent is probed."""

from __future__ import annotations

import time

from device_agent.telemetry import gauge
from device_agent.telemetry.battery import battery_state
from device_agent.telemetry.clocks import clock_share
from device_agent.telemetry.reading import Missing, Reading, dump
from device_agent.telemetry.thermal import thermal_state


def sensors() -> dict[str, str]:
    """Sensor → its value with unit, or `unavailable (why)`."""
    battery, heat = battery_state(dump("battery")), thermal_state(dump("thermalservice"))
    now = gauge.sample(time.monotonic())
    hottest: Reading = max(heat.celsius.values()) if heat.celsius else Missing("no sensor tells")
    return {
        "battery_level": _said(battery.level_percent, "%"),
        "battery_temperature": _said(battery.temperature_c, "°C"),
        "charge_counter": _said(battery.counter_uah, "µAh"),
        "plugged": str(battery.plugged) if isinstance(battery.plugged, Missing) else ("no", "yes")[battery.plugged],
        "current": _said(now.current, "in the vendor's unit"),
        "voltage": _said(now.voltage_v if isinstance(battery.voltage_v, Missing) else battery.voltage_v, "V"),
        "thermal_status": _said(heat.status, ""),
        "temperature": _said(hottest, "°C"),
        "clock": _said(clock_share(0), "of its highest"),
    }


def _said(reading: Reading, unit: str) -> str:
    return str(reading) if isinstance(reading, Missing) else f"{round(reading, 3):.12g} {unit}".strip()
