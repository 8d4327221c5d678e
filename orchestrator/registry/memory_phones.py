"""Phones and their leases in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from orchestrator.entities import Device, DeviceState, FarmEvent
from orchestrator.registry import rules
from orchestrator.registry.memory_log import MemoryLog


@dataclass
class Lease:
    token: int = 0
    attempt_id: str | None = None
    owner: str = ""
    until: float = 0.0
    ttl_s: float = 0.0
    exclusive: bool = False

    def prolong(self, now: float, ttl_s: float) -> None:
        self.until, self.ttl_s = now + ttl_s, ttl_s

    def expired(self, now: float) -> bool:
        return rules.lease_expired(now, self.until, self.ttl_s)

    def held(self, now: float) -> bool:
        return rules.leased(self.attempt_id, self.expired(now))


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
            self._devices[device.name] = self._dated(known, replace(device, state=rules.stored(device.state)))
            self._leases.setdefault(device.name, Lease())
            self._note_state(known, self._devices[device.name])

    def set_device_state(
        self, name: str, state: DeviceState, reason: str = "", only_from: Collection[DeviceState] | None = None
    ) -> bool:
        with self._lock:
            known = self._stored_device(name)
            if not rules.may_move(known.state, only_from):
                return False
            self._devices[name] = self._dated(known, replace(known, state=rules.stored(state), state_reason=reason))
            self._note_state(known, self._devices[name])
            return True

    def device_history(self, name: str, limit: int) -> list[FarmEvent]:
        with self._lock:
            self._stored_device(name)
            mine = [e for e in reversed(self._events) if e.kind == "device_state" and e.device == name]
            return mine[:limit]

    def _dated(self, before: Device | None, now: Device) -> Device:
        same = before is not None and before.state is now.state
        return replace(now, state_since=before.state_since if before and same else self._clock())

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
            return replace(device, state=rules.shown(device.state, lease.held(self._clock())))

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
