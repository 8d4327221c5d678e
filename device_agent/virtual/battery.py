"""The battery: full when the phone is made, drained by its body, printed as Android's battery service prints it."""

from __future__ import annotations

from dataclasses import dataclass, field

from device_agent.virtual.body import Body
from device_agent.virtual.profile import Profile

FULL_MV, EMPTY_MV = 4350, 3500
CHARGING, DISCHARGING = 2, 3  # Android's BatteryManager
STATUS_WORDS = {CHARGING: "Charging", DISCHARGING: "Discharging"}  # the kernel's
CHARGER_W = 15.0
LEAST_CHARGE = 0.3
_DUMP = """\
Current Battery Service state:
{stopped}  AC powered: {ac}
  USB powered: false
  Wireless powered: false
  Dock powered: false
  Max charging current: 0
  Max charging voltage: 0
  Charge counter: {counter}
  status: {status}
  health: 2
  present: true
  level: {level}
  scale: 100
  voltage: {voltage}
  temperature: {temperature}
  technology: Li-ion
"""
_STOPPED = "  (UPDATES STOPPED -- use 'reset' to restart)\n"


@dataclass
class Battery:
    profile: Profile
    body: Body
    pinned_level: int | None = None  # a fault: so full, whatever was used
    plugged: bool = False
    _fakes: dict[str, str] = field(default_factory=dict)  # `dumpsys battery set`: what Android then shows instead

    def charge(self) -> float:
        """0 to 1. A virtual phone has nobody who plugs it in at night: what it used never makes it low."""
        self.body.look()
        if self.pinned_level is not None:
            return self.pinned_level / 100
        capacity_j = self.profile.battery_mah / 1000 * 3600 * self.profile.battery_v
        return max(LEAST_CHARGE, 1 - self.body.used_j / capacity_j)

    def voltage_mv(self) -> int:
        return round(EMPTY_MV + (FULL_MV - EMPTY_MV) * self.charge())

    def discharge_a(self) -> float:
        """Amperes out of the cell; negative while it is charged."""
        watts = self.body.watts - (CHARGER_W if self.plugged else 0.0)
        return watts / (self.voltage_mv() / 1000)

    def status(self) -> int:
        return CHARGING if self.plugged else DISCHARGING

    def counter_uah(self) -> int:
        return round(self.profile.battery_mah * 1000 * self.charge())

    def dump(self) -> str:
        """Text of `dumpsys battery`: µAh, percent, mV, tenths of a degree."""
        true = {
            "ac": "true" if self.plugged else "false",
            "counter": self.counter_uah(),
            "status": self.status(),
            "level": round(100 * self.charge()),
            "voltage": self.voltage_mv(),
            "temperature": round(10 * self.body.celsius),
        }
        return _DUMP.format_map({**true, **self._fakes, "stopped": _STOPPED if self._fakes else ""})

    def command(self, words: list[str]) -> str | None:
        """`dumpsys battery …`: its output, None for a command that it does not know."""
        match words:
            case []:
                return self.dump()
            case ["reset"]:
                self._fakes.clear()
            case ["unplug"]:
                self._fakes |= {"ac": "false", "status": str(DISCHARGING)}
            case ["set", name, value] if name in ("ac", "counter", "status", "level", "temp"):
                shown = "true" if value == "1" else "false"
                self._fakes["temperature" if name == "temp" else name] = shown if name == "ac" else value
            case _:
                return None
        return ""
