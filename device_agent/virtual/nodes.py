"""The kernel's files as the shell user finds them: clocks, memory, battery gauge, uptime; with the vendor's quirks.

They lie in the phone's own `/sys` and `/proc` (files.py says which paths are mapped) and are written anew before a
command starts and every second while one runs.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from device_agent.virtual.battery import STATUS_WORDS, Battery
from device_agent.virtual.limits import Limits
from device_agent.virtual.profile import Profile

_GAUGE = "sys/class/power_supply/battery"
_SLOWEST_KHZ = 300_000
_UNITS_PER_A = {"uA": 1e6, "mA": 1e3}


@dataclass
class Nodes:
    root: Path
    profile: Profile
    battery: Battery
    limits: Limits
    booted: float = field(default_factory=time.monotonic)
    denied: set[str] = field(default_factory=set)  # names of gauge nodes, beside the profile's
    oom_kills: int = 0  # told by a fault; those that the kernel counted come on top
    _written: dict[str, str] = field(default_factory=dict)

    def boot(self) -> None:
        self.booted = time.monotonic()
        self.oom_kills = -self.limits.oom_kills()
        self._write("proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        for core in range(self.profile.cores):
            self._write(f"sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq", f"{self.profile.max_khz}\n")
        for name in ("type", "temp"):  # denied to the shell user since Android 10
            self._write(f"sys/class/thermal/thermal_zone0/{name}", "\n", denied=True)
        self.refresh()

    def uptime_s(self) -> float:
        return time.monotonic() - self.booted

    def refresh(self) -> None:
        """Bring all that changes up to now."""
        body = self.battery.body
        body.look()
        self.limits.throttle(body.clock_share())
        self._write("proc/uptime", f"{self.uptime_s():.2f} {self.uptime_s() * self.limits.cores:.2f}\n")
        self._write("proc/meminfo", self._meminfo())
        self._write("proc/vmstat", f"oom_kill {self.oom_kills + self.limits.oom_kills()}\n")
        khz = max(_SLOWEST_KHZ, round(self.profile.max_khz * body.clock_share()))
        for core in range(self.profile.cores):
            self._write(f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", f"{khz}\n")
        for name, text in self._gauge().items():
            hidden = name in self.denied or name in self.profile.denied_nodes
            self._write(f"{_GAUGE}/{name}", f"{text}\n", denied=hidden)

    def _gauge(self) -> dict[str, object]:
        """As this vendor's driver says it: the kernel's rule is µA, negative when discharging; not all keep it."""
        battery, profile = self.battery, self.profile
        per_a = _UNITS_PER_A[profile.current_unit]
        return {
            "current_now": round(profile.discharge_sign * battery.discharge_a() * per_a),
            "voltage_now": battery.voltage_mv() * 1000,
            "status": STATUS_WORDS[battery.status()],
            "capacity": round(100 * battery.charge()),
            "charge_counter": battery.counter_uah(),
            "temp": round(10 * battery.body.celsius),
        }

    def _meminfo(self) -> str:
        host = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        total_kb = self.profile.ram_mb * 1024
        free_kb = min(int(host["MemAvailable"].split()[0]), total_kb)
        rows = {"MemTotal": total_kb, "MemFree": free_kb, "MemAvailable": free_kb}
        return "".join(f"{name + ':':<16}{kb:>8} kB\n" for name, kb in rows.items())

    def _write(self, name: str, text: str, denied: bool = False) -> None:
        """Renamed into place, and only when it changed."""
        state = text + str(denied)
        if self._written.get(name) == state:
            return
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}")
        temporary.write_text(text)
        temporary.chmod(0 if denied else 0o444)
        os.replace(temporary, path)
        self._written[name] = state
