"""From outbox to sink: nothing is lost in an outage, and no single item holds up the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.entities import FarmEvent, Sweep, Trial, TrialState
from orchestrator.errors import TrackingError, UnknownName
from orchestrator.registry.contract import OutboxItem, Registry

OUTAGE_PAUSE_S, POISON_PAUSE_S = (1.0, 60.0), (30.0, 3600.0)  # first, longest; doubled in between
QUICK_S, SWEEP_SHARE = 0.1, 0.05  # a sweep's own run that takes longer to write may take that share of the time
LOGGED = (TrialState.DONE, TrialState.FAILED, TrialState.CANCELLED)


class Sink(Protocol):
    """Both writes raise TrackingError, and writing again changes nothing."""

    def write_trial(self, registry: Registry, sweep: Sweep, trial: Trial) -> None: ...
    def write_sweep(self, registry: Registry, sweep: Sweep) -> None: ...
    def reachable(self) -> bool: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Pause:
    failures: int
    until: float


class _Outage(Exception):
    """The sink does not answer: leave the outbox as it is."""


class Delivery:
    """A Tracker. Pauses are kept in memory: a restarted process tries at once."""

    def __init__(self, sink: Sink, clock: Callable[[], float] = time.monotonic) -> None:
        self._sink, self._clock = sink, clock
        self._outage: Pause | None = None
        self._poison: dict[int, Pause] = {}
        self._rests: dict[str, float] = {}  # sweep → when its own run may be written again
        self._reminders: dict[int, str] = {}  # written item, kept in the outbox until its sweep's run is → the sweep

    def drain(self, registry: Registry, limit: int = 100) -> int:
        if self._outage and self._clock() < self._outage.until:
            return 0
        items = registry.outbox(limit + len(self._poison) + len(self._reminders))  # those must not fill the window
        due = [i for i in items if self._due(i)][:limit]
        try:
            delivered = sum(self._deliver(registry, s, group) for s, group in _by_sweep(due).items())
        except _Outage as error:
            self._note_outage(registry, str(error))
            return 0
        if due and self._outage:
            registry.add_event(FarmEvent("tracking_recovered"))
            self._outage = None
        return delivered

    def close(self) -> None:
        self._sink.close()

    def _due(self, item: OutboxItem) -> bool:
        if item.item_id in self._reminders and not self._sweep_due(item):
            return False
        pause = self._poison.get(item.item_id)
        return pause is None or pause.until <= self._clock()

    def _deliver(self, registry: Registry, sweep_id: str, items: Sequence[OutboxItem]) -> int:
        """Trials first, then the sweep's own run, so that its table holds them; only then are the items done. The run
        of a large sweep is written now and then, and when it ends: one item stays in the outbox as a reminder."""
        try:
            sweep = registry.sweep(sweep_id)
        except UnknownName as error:
            return self._settle(registry, [(item, str(error)) for item in items])
        trials = dict.fromkeys(i.trial_id for i in items if i.trial_id)
        errors = {t: self._attempt(lambda t=t: self._write_trial(registry, sweep, t)) for t in trials}  # type: ignore[misc]  # lambda default
        if not any(map(self._sweep_due, items)) and _goes_on(registry, sweep_id):
            *items, last = items
            self._reminders[last.item_id] = sweep_id
            return self._settle(registry, [(i, errors[i.trial_id or ""]) for i in items])
        began = self._clock()
        errors[""] = self._attempt(lambda: self._sink.write_sweep(registry, sweep))
        self._rest(sweep_id, self._clock() - began)
        return self._settle(registry, [(i, errors[i.trial_id or ""] or errors[""]) for i in items])

    def _sweep_due(self, item: OutboxItem) -> bool:
        return item.kind == "sweep" or self._clock() >= self._rests.get(item.sweep_id, float("-inf"))

    def _rest(self, sweep_id: str, took_s: float) -> None:
        self._rests[sweep_id] = self._clock() + (took_s / SWEEP_SHARE if took_s > QUICK_S else 0.0)
        self._reminders = {item: sweep for item, sweep in self._reminders.items() if sweep != sweep_id}

    def _write_trial(self, registry: Registry, sweep: Sweep, trial_id: str) -> None:
        trial = registry.trial(trial_id)
        if trial.state in LOGGED:  # one that runs again will owe a newer item
            self._sink.write_trial(registry, sweep, trial)

    def _attempt(self, write: Callable[[], None]) -> str:
        """Empty when written, else what is wrong with this item; raises _Outage when the sink is."""
        try:
            write()
        except (TrackingError, UnknownName) as error:
            if not self._sink.reachable():
                raise _Outage(error.message) from error
            return error.message
        return ""

    def _settle(self, registry: Registry, errors: Sequence[tuple[OutboxItem, str]]) -> int:
        """Together, for each commit waits for the disk. Returns how many were delivered."""
        good = [item.item_id for item, error in errors if not error]
        if good:
            registry.outbox_done(good)
        for item_id in good:
            self._poison.pop(item_id, None)
        for item, error in errors:
            if error:
                self._fail(registry, item, error)
        return len(good)

    def _fail(self, registry: Registry, item: OutboxItem, error: str) -> None:
        self._poison[item.item_id] = pause = _longer(self._poison.get(item.item_id), POISON_PAUSE_S, self._clock())
        data = {"item": item.item_id, "error": error, "failures": pause.failures}
        registry.add_event(FarmEvent("tracking_failed", sweep_id=item.sweep_id, trial_id=item.trial_id, data=data))

    def _note_outage(self, registry: Registry, error: str) -> None:
        if self._outage is None:
            registry.add_event(FarmEvent("tracking_unreachable", data={"error": error}))
        self._outage = _longer(self._outage, OUTAGE_PAUSE_S, self._clock())


def _goes_on(registry: Registry, sweep_id: str) -> bool:
    """Whether there is a later time to write its own run; what comes after its end is little and due at once."""
    counts = registry.counts(sweep_id)
    return any(counts.get(state) for state in (TrialState.WAITING, TrialState.RUNNING))


def _longer(pause: Pause | None, limits: tuple[float, float], now: float) -> Pause:
    failures = pause.failures + 1 if pause else 1
    first, longest = limits
    return Pause(failures, now + min(longest, first * 2.0 ** min(failures - 1, 30)))


def _by_sweep(items: Iterable[OutboxItem]) -> dict[str, list[OutboxItem]]:
    groups: dict[str, list[OutboxItem]] = {}
    for item in items:
        groups.setdefault(item.sweep_id, []).append(item)
    return groups
