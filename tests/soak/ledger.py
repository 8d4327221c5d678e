"""What was done to which phone and when, and which failures that may explain."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from orchestrator.entities import FailureKind as Kind

SLACK_S = 15.0  # a failure is noticed, and recorded, a while after its cause
POWER_OFF = "power-off"  # beside the phone's own faults: its process is killed

# Fault → the names under which the farm may know it. Nothing: the farm has to get over it without a failed attempt.
EXPLAINS: dict[str, set[Kind]] = {
    "cut": set(),
    "offline": {Kind.UNREACHABLE},
    "stall": {Kind.UNREACHABLE},
    "slow": {Kind.UNREACHABLE},
    "garbage": {Kind.UNREACHABLE},
    "lose-ends": set(),
    "unauthorized": {Kind.UNAUTHORIZED},
    "kill-agent": {Kind.AGENT_KILLED},
    "vanish-agent": {Kind.AGENT_VANISHED},
    "oom-kill": {Kind.OUT_OF_MEMORY},
    "restart-adbd": {Kind.ADBD_RESTARTED, Kind.AGENT_VANISHED},
    "reboot": {Kind.REBOOTED, Kind.AGENT_VANISHED},
    "disk-full": {Kind.DISK_FULL},
    "read-only": {Kind.COMMAND_FAILED, Kind.PROVISIONING},
    "hot": set(),
    "low-battery": set(),
    "charging": set(),
    "faked-battery": set(),
    "faked-thermal": set(),
    "denied-gauge": set(),
    "wrong-serial": {Kind.UNREACHABLE},
    POWER_OFF: {Kind.UNREACHABLE, Kind.REBOOTED, Kind.AGENT_VANISHED},
}


@dataclass
class Injury:
    phone: str
    fault: str
    number: str
    at: float  # unix time
    until: float | None = None  # None: it lasts
    landed: bool = True  # it found something to hurt

    def covers(self, start: float, end: float) -> bool:
        return self.landed and self.at <= end + 1.0 and (self.until is None or self.until + SLACK_S >= start)


class Ledger:
    """Written by several threads."""

    def __init__(self) -> None:
        self._injuries: list[Injury] = []
        self._lock = threading.Lock()

    def add(self, injury: Injury) -> Injury:
        with self._lock:
            self._injuries.append(injury)
        return injury

    def mended(self, phone: str) -> None:
        """All that lasts there has ended."""
        with self._lock:
            for injury in self._injuries:
                if injury.phone == phone and injury.until is None:
                    injury.until = time.time()

    def all(self) -> list[Injury]:
        with self._lock:
            return list(self._injuries)

    def explains(self, phone: str, kind: str, start: float, end: float) -> list[str]:
        """Faults on the phone between these times that the farm may call `kind`."""
        hurt = [injury for injury in self.all() if injury.phone == phone and injury.covers(start, end)]
        return sorted({injury.fault for injury in hurt if kind in {k.value for k in EXPLAINS[injury.fault]}})
