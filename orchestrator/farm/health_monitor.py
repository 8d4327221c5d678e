"""Watches the phones of one farm host, and writes into the registry what becomes of them.

A thread a phone: one that stalls keeps nobody waiting but itself. A phone that works on an attempt is left in peace:
whoever follows the attempt notices first what happens to it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import RegistryError
from orchestrator.farm.connecting import Connect
from orchestrator.farm.health import Lookout
from orchestrator.farm.health_rules import JUDGED, Streak, judge
from orchestrator.registry.contract import Registry

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """Seconds."""

    tick: float = 1.0  # between two looks into the registry: new phones, and who is busy
    well: float = 10.0  # between two looks at a phone that is well
    again: float = 4.0  # at one that is not, or did not answer just now
    vitals: float = 60.0  # between two readings of its sensors, which cost the phone more than an echo


class HealthMonitor(threading.Thread):
    """Runs until `stop` is set. `open_registry` is called in this thread, and its registry closed at the end."""

    def __init__(
        self,
        open_registry: Callable[[], Registry],
        connect: Connect,
        host: str,
        stop: threading.Event,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(name="health", daemon=True)
        self._open_registry, self._connect, self._host = open_registry, connect, host
        self._stopping, self._pace = stop, pace or Pace()
        self._watches: dict[str, _Watch] = {}

    def run(self) -> None:
        registry = self._open_registry()
        try:
            while not self._stopping.is_set():
                self._tick(registry)
                self._stopping.wait(self._pace.tick)
        finally:
            for watch in self._watches.values():
                watch.end()
            registry.close()

    def _tick(self, registry: Registry) -> None:
        try:
            devices = [d for d in registry.devices() if d.host == self._host and d.state is not DeviceState.RETIRED]
        except RegistryError as error:
            log.warning("the registry does not answer: %s", error)
            return
        for name in self._watches.keys() - {d.name for d in devices}:
            self._watches.pop(name).end()
        for device in devices:
            if (watch := self._watches.get(device.name)) is None:
                watch = self._watches[device.name] = _Watch(device, registry, self._connect, self._pace)
                watch.start()
            watch.update(device)


class _Watch(threading.Thread):
    def __init__(self, device: Device, registry: Registry, connect: Connect, pace: Pace) -> None:
        super().__init__(name=f"health-{device.name}", daemon=True)
        self._device, self._registry, self._pace = device, registry, pace
        self._lookout, self._streak = Lookout(connect), Streak()
        self._wake, self._ended = threading.Event(), False
        self._vitals_at = float("-inf")

    def update(self, device: Device) -> None:
        """What the registry says of it now. One that was busy until now is looked at at once: how did it survive?"""
        done = self._device.state is DeviceState.BUSY and device.state is not DeviceState.BUSY
        self._device = device
        if done:
            self._wake.set()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def run(self) -> None:
        while not self._ended:
            self._wake.clear()
            well = True
            if self._device.state in JUDGED:
                with suppress(RegistryError):  # the next look finds the same
                    well = self._look(self._device)
            self._wake.wait(self._pace.well if well else self._pace.again)
        self._lookout.close()

    def _look(self, device: Device) -> bool:
        """Whether it is ready and answers."""
        unwell = device.state is not DeviceState.READY
        vitals = unwell or time.monotonic() - self._vitals_at >= self._pace.vitals
        sighting = self._lookout.look(device, vitals)
        if self._ended:
            return True
        if sighting.vitals is not None:
            self._vitals_at = time.monotonic()
        self._streak = self._streak.after(sighting)
        state, reason = judge(device.state, self._streak, sighting)
        if state is not device.state and self._registry.set_device_state(device.name, state, reason, (device.state,)):
            log.info("phone %s: %s, was %s (%s)", device.name, state.value, device.state.value, reason)
            self._device = replace(device, state=state, state_reason=reason)
        return state is DeviceState.READY and not sighting.problem
