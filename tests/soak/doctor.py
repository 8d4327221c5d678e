"""Looks after quarantined phones as a person would: mends what is broken there, and lets the farm have them back."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from orchestrator.entities import Device, DeviceState
from orchestrator.registry.contract import Registry
from tests.soak.faulter import Faulter

LOOK_S = 1.0
NEEDS_SOMEBODY = (DeviceState.QUARANTINED,)


@dataclass(frozen=True)
class Quarantine:
    phone: str
    reason: str
    at: float  # unix time


class Doctor(threading.Thread):
    def __init__(self, registry: Registry, faulter: Faulter) -> None:
        super().__init__(name="doctor", daemon=True)
        self._registry, self._faulter = registry, faulter
        self._halt = threading.Event()
        self.seen: list[Quarantine] = []

    def run(self) -> None:
        while not self._halt.wait(LOOK_S):
            for device in self._registry.devices():
                if device.state in NEEDS_SOMEBODY:
                    self._treat(device)

    def stop(self) -> None:
        self._halt.set()
        self.join()

    def _treat(self, device: Device) -> None:
        self.seen.append(Quarantine(device.name, device.state_reason, time.time()))
        self._faulter.mend(device.name)
        self._registry.set_device_state(device.name, DeviceState.READY, "mended", only_from=NEEDS_SOMEBODY)
