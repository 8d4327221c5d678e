"""The battery: full at boot, drained by the profile's power model, printed as Android's battery service prints it."""

from __future__ import annotations

import time

from device_agent.virtual.processes import Processes
from device_agent.virtual.profile import Profile

_FULL_MV, _EMPTY_MV = 4350, 3500
_TEMPERATURE_C = 28.5  # no thermal model: always the same, cool
_DUMP = """\
Current Battery Service state:
  AC powered: false
  USB powered: false
  Wireless powered: false
  Dock powered: false
  Max charging current: 0
  Max charging voltage: 0
  Charge counter: {counter_uah}
  status: 3
  health: 2
  present: true
  level: {level}
  scale: 100
  voltage: {voltage_mv}
  temperature: {temperature}
  technology: Li-ion
"""
_THERMAL_DUMP = """\
IsStatusOverride: false
ThermalEventListeners:
	callbacks: 0
	killed: false
	broadcasts count: -1
ThermalStatusListeners:
	callbacks: 0
	killed: false
	broadcasts count: -1
Thermal Status: 0
Cached temperatures:
	Temperature{{mValue={celsius}, mType=2, mName=battery, mStatus=0}}
	Temperature{{mValue={celsius}, mType=3, mName=skin, mStatus=0}}
HAL Ready: true
HAL connection:
	ThermalHAL 2.0 connected: yes
Current temperatures from HAL:
	Temperature{{mValue={celsius}, mType=2, mName=battery, mStatus=0}}
	Temperature{{mValue={celsius}, mType=3, mName=skin, mStatus=0}}
"""


class Battery:
    def __init__(self, profile: Profile, processes: Processes) -> None:
        self._profile, self._processes = profile, processes
        self._booted = time.monotonic()

    def used_j(self) -> float:
        """Joules since boot; a process counts once it has ended."""
        power = self._profile.power
        idle_j = power.idle_w * (time.monotonic() - self._booted)
        cpu_j = power.cpu_w_per_core * self._processes.cpu_s
        return idle_j + cpu_j + power.flash_j_per_gb * self._processes.read_bytes / 1e9

    def charge(self) -> float:
        """0 to 1. Never quite empty: an empty phone would be off."""
        capacity_j = self._profile.battery_mah / 1000 * 3600 * self._profile.battery_v
        return max(0.01, 1 - self.used_j() / capacity_j)

    def dump(self) -> str:
        """Text of `dumpsys battery`: µAh, percent, mV, tenths of a degree; status 3 is discharging."""
        charge = self.charge()
        return _DUMP.format(
            counter_uah=round(self._profile.battery_mah * 1000 * charge),
            level=round(100 * charge),
            voltage_mv=round(_EMPTY_MV + (_FULL_MV - _EMPTY_MV) * charge),
            temperature=round(10 * _TEMPERATURE_C),
        )


def thermal_dump() -> str:
    """Text of `dumpsys thermalservice`."""
    return _THERMAL_DUMP.format(celsius=_TEMPERATURE_C)
