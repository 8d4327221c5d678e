"""Phones and their leases in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from orchestrator.entities import Device, DeviceState
from orchestrator.registry import rules
from orchestrator.registry.memory_log import MemoryLog


@dataclass
class Lease:
    token: int = 0
    attempt_id: str | None = None
    owner: str = ""
    until: float = 0.0


class MemoryPhones(MemoryLog):
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._devices: dict[str, Device] = {}
        self._leases: dict[str, Lease] = {}
        self._costs: dict[tuple[str, str], dict[str, Any]] = {}
        self._ended: list[str] = []  # attempts, in the order they ended
        self._trusted_since: dict[str, int] = {}  # device → how many attempts had ended when it left quarantine

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def put_device(self, device: Device) -> None:
        with self._lock:
            known = self._devices.get(device.name)
            self._devices[device.name] = replace(device, state=rules.stored(device.state))
            self._leases.setdefault(device.name, Lease())
            self._note_state(known, self._devices[device.name])

    def set_device_state(self, name: str, state: DeviceState, reason: str = "") -> None:
        with self._lock:
            known = self._stored_device(name)
            self._devices[name] = replace(known, state=rules.stored(state), state_reason=reason)
            self._note_state(known, self._devices[name])

    def _note_state(self, before: Device | None, now: Device) -> None:
        if before is None or (before.state, before.state_reason) != (now.state, now.state_reason):
            self.add_event(rules.device_event(now.name, now.state, now.state_reason))
        if before is not None and before.state is DeviceState.QUARANTINED and now.state is not before.state:
            self._trusted_since[now.name] = len(self._ended)

    def _stored_device(self, name: str) -> Device:
        if name not in self._devices:
            raise rules.unknown("phone", name, self._devices, "Register it: lever phones register …")
        return self._devices[name]

    def device(self, name: str) -> Device:
        with self._lock:
            device = self._stored_device(name)
            lease = self._leases[name]
            leased = rules.leased(lease.attempt_id, lease.until <= self._clock())
            return replace(device, state=rules.shown(device.state, leased))

    def put_costs(self, device: str, key: str, costs: dict[str, Any]) -> None:
        with self._lock:
            self._stored_device(device)
            self._costs[device, key] = costs

    def costs(self, device: str, key: str) -> dict[str, Any] | None:
        with self._lock:
            return self._costs.get((device, key))

    def devices(self) -> list[Device]:
        with self._lock:
            return [self.device(name) for name in sorted(self._devices)]
