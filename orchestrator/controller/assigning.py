"""What waits, kept in memory beside the registry, and which of it goes to which phone. Blocking.

The registry stays the truth: a claim of something that changed meanwhile is refused there, and a queue whose length
differs from the registry's is read anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from orchestrator.controller.following import Following
from orchestrator.entities import AttemptState, Device, DeviceState, FarmEvent, Trial, TrialState
from orchestrator.registry.contract import Queued, Registry
from orchestrator.scheduling.choose import Scheduler
from orchestrator.scheduling.durations import REMEMBERED, Durations, Kind
from orchestrator.scheduling.floor import Floor, Running
from orchestrator.scheduling.queue import Queue
from orchestrator.scheduling.reasons import changed_reasons
from orchestrator.scheduling.waiting import Waiting, waiting_of

CHANGES = frozenset(
    {"sweep_submitted", "sweep_cancelled", "attempt_started", "attempt_finished", "device_state", "phone_released"}
)


class Assigning:
    """Of one controller; called from one thread."""

    def __init__(self, registry: Registry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._clock = registry, clock
        self._durations = Durations()
        self._scheduler = Scheduler(Queue(self._durations))
        self._devices: list[Device] = []
        self._known = False  # whether the queue was read at all, and is to be trusted
        self._learnt = False  # how long trials took before us

    def take_in(self, events: Sequence[FarmEvent], everything: bool) -> bool:
        """Follow what happened; returns whether that may let something start. `everything`: look at the phones and the
        queue's length too."""
        if not self._known:
            self._read_all()
            return True
        queue = self._scheduler.queue
        for event in events:
            self._apply(event)
        if everything or any(event.kind == "device_state" for event in events):
            self._devices = self._registry.devices()
        if everything and len(queue) != self._registry.queue_length():
            self._read_queue()
        return everything or any(event.kind in CHANGES for event in events)

    def assign(self, following: Iterable[Following]) -> list[tuple[Waiting, Device]]:
        """Trials to start now; why the others wait is noted in the registry."""
        queue = self._scheduler.queue
        if not len(queue):
            return []
        ours = {f.attempt.device: Running(f.attempt.device, f.alone, f.sweep) for f in following}
        devices = [self._seen(device, device.name in ours) for device in self._devices]
        others = [Running(d.name, alone=True) for d in devices if d.state is DeviceState.BUSY]  # we do not know better
        floor = Floor(devices, [*ours.values(), *others])
        chosen = self._scheduler.assign(floor, self._clock())
        reasons = changed_reasons(queue, floor)
        if reasons:
            self._registry.set_waiting_reason(reasons)
            for trial_id, reason in reasons.items():
                queue.set_reason(trial_id, reason)
        return chosen

    def distrust(self) -> None:
        """Something that was assigned did not start: read everything anew."""
        self._known = False

    def ended(self, trial: Trial, device: str, wall_s: float) -> None:
        """A trial was run to its end."""
        self._learn(trial.spec.labels, device, wall_s)

    def _seen(self, device: Device, ours: bool) -> Device:
        return replace(device, state=DeviceState.READY) if ours and device.state is DeviceState.BUSY else device

    def _apply(self, event: FarmEvent) -> None:
        queue, trial_id = self._scheduler.queue, event.trial_id or ""
        if event.kind == "sweep_submitted":
            self._add(self._registry.queue(sweep_id=event.sweep_id))
        elif event.kind == "sweep_cancelled":
            for trial in [t for t in queue.trials.values() if t.sweep == event.sweep_id]:
                queue.discard(trial.trial_id)
            self._add(self._registry.queue(sweep_id=event.sweep_id))  # what another sweep wants goes on waiting
        elif event.kind == "attempt_started":
            queue.discard(trial_id)
        elif event.kind == "attempt_finished" and event.data.get("trial_state") == TrialState.WAITING:
            self._add(self._registry.queue([trial_id]))

    def _read_all(self) -> None:
        if not self._learnt:
            for labels, device, wall_s in self._registry.lasted(REMEMBERED):
                self._learn(labels, device, wall_s)
            self._learnt = True
        self._devices = self._registry.devices()
        self._read_queue()
        self._known = True

    def _read_queue(self) -> None:
        queue = self._scheduler.queue
        for trial_id in list(queue.trials):
            queue.discard(trial_id)
        self._add(self._registry.queue())

    def _add(self, queued: Iterable[Queued]) -> None:
        for one in queued:
            self._scheduler.queue.add(waiting_of(one.trial, one.number, one.sweep_id, self._avoided(one.trial)))

    def _avoided(self, trial: Trial) -> frozenset[str]:
        """Phones on which a trial that is bound to none failed since it was last submitted."""
        if trial.spec.device is not None or trial.attempts == trial.earlier_attempts:
            return frozenset()
        attempts = self._registry.attempts(trial.spec.trial_id)
        failed = [a for a in attempts if a.state is AttemptState.FAILED and a.number > trial.earlier_attempts]
        return frozenset(a.device for a in failed)

    def _learn(self, labels: dict[str, str], device: str, wall_s: float) -> None:
        self._durations.observe(Kind.of(labels), device, wall_s)
        if pair := labels.get("pair"):
            self._scheduler.pushing.note(device, pair)
