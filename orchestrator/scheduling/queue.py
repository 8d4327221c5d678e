"""All that waits, by sweep and lane; costs of every operation grow with the number of lanes, not of trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from orchestrator.entities import Device
from orchestrator.scheduling.durations import Durations
from orchestrator.scheduling.lane import Lane, LaneKey
from orchestrator.scheduling.selector import candidates
from orchestrator.scheduling.waiting import Waiting

Lanes = dict[LaneKey, Lane]


class Queue:
    def __init__(self, durations: Durations | None = None) -> None:
        self.durations = Durations() if durations is None else durations
        self.trials: dict[str, Waiting] = {}
        self._bound: dict[str, dict[str, Lanes]] = {}  # sweep → phone → lanes
        self._shared: dict[str, dict[str, Lanes]] = {}  # sweep → selector → lanes
        self._priorities: dict[str, Counter[int]] = {}
        self._selected: dict[str, frozenset[str]] = {}
        self._phones: dict[str, Device] = {}
        self.work_s = 0.0  # estimated seconds of all that waits
        self.bound_s: dict[str, float] = {}  # of what waits for one phone, by phone

    def __len__(self) -> int:
        return len(self.trials)

    def __contains__(self, trial_id: object) -> bool:
        return trial_id in self.trials

    def add(self, trial: Waiting) -> None:
        """In place of what is known under this id."""
        self.discard(trial.trial_id)
        self.trials[trial.trial_id] = trial
        self._priorities.setdefault(trial.sweep, Counter())[trial.priority] += 1
        lane = self._lanes(trial).setdefault(LaneKey.of(trial), Lane())
        self._weigh(trial, lane.add(trial, self.durations.estimate_s(trial.kind, trial.device or "")))

    def discard(self, trial_id: str) -> None:
        trial = self.trials.pop(trial_id, None)
        if trial is None:
            return
        self._take(trial)
        priorities = self._priorities[trial.sweep]
        priorities[trial.priority] -= 1
        if not (+priorities):
            del self._priorities[trial.sweep]

    def set_reason(self, trial_id: str, reason: str) -> None:
        object.__setattr__(self.trials[trial_id], "reason", reason)  # no part of who the trial is

    def look_at(self, devices: dict[str, Device]) -> None:
        """What selectors mean may change with the phones that there are."""
        if devices is self._phones:
            return
        known = {n: (d.facts, d.tags, d.state.value == "retired") for n, d in self._phones.items()}
        if known != {n: (d.facts, d.tags, d.state.value == "retired") for n, d in devices.items()}:
            self._selected.clear()
        self._phones = devices

    def selected(self, phones: str) -> frozenset[str]:
        """Names of the phones that a selector means now; none when it means nothing any more."""
        if phones not in self._selected:
            found = candidates(list(self._phones.values()), phones)
            self._selected[phones] = frozenset(d.name for d in found)
        return self._selected[phones]

    def priorities(self) -> dict[str, int]:
        """Of the sweeps that have something waiting, oldest first."""
        return {sweep: max(p for p, n in found.items() if n > 0) for sweep, found in self._priorities.items()}

    def wanted(self, free: set[str]) -> set[str]:
        """Of these phones, those that something might start on."""
        if any(self._shared.values()):
            return set(free)
        return {phone for queues in self._bound.values() for phone in queues if phone in free}

    def bound(self, sweep: str, phone: str) -> Lanes:
        return self._bound.get(sweep, {}).get(phone, {})

    def shared(self, sweep: str, phone: str) -> Iterator[tuple[LaneKey, Lane]]:
        """Lanes of trials that this phone may run, and others too."""
        for selector, lanes in self._shared.get(sweep, {}).items():
            if phone in self.selected(selector):
                yield from lanes.items()

    def _lanes(self, trial: Waiting) -> Lanes:
        table, queue = (self._shared, trial.phones) if trial.device is None else (self._bound, trial.device)
        return table.setdefault(trial.sweep, {}).setdefault(queue, {})

    def _take(self, trial: Waiting) -> None:
        """Out of its lane; what is empty goes, so that nobody looks into it again."""
        table, queue = (self._shared, trial.phones) if trial.device is None else (self._bound, trial.device)
        lanes, key = table[trial.sweep][queue], LaneKey.of(trial)
        self._weigh(trial, -lanes[key].remove(trial.trial_id))
        if not lanes[key]:
            del lanes[key]
        if not lanes:
            del table[trial.sweep][queue]
        if not table[trial.sweep]:
            del table[trial.sweep]

    def _weigh(self, trial: Waiting, seconds: float) -> None:
        self.work_s = self.work_s + seconds if self.trials else 0.0
        if trial.device is not None:
            self.bound_s[trial.device] = self.bound_s.get(trial.device, 0.0) + seconds
