"""Ask and tell: a configuration is asked for whenever the farm has room for one, and told as soon as it ended, so that
no phone waits for the slowest of a batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.entities import Device, DeviceState, Sweep, Trial, TrialState
from orchestrator.errors import UsageError
from orchestrator.registry.contract import Registry
from orchestrator.sweeps.expand import Expander
from orchestrator.sweeps.follow import POLL_S, View, take_events
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.progress import FINAL, SweepProgress
from orchestrator.sweeps.record import provenance

AHEAD = 1  # trials that wait beyond what can run at once, so that a phone that ends has its next at once


@dataclass(frozen=True)
class Asked:
    """A configuration to try."""

    number: int
    job: SweepJob


class Study(Protocol):
    """What decides on configurations."""

    def restore(self, trials: Sequence[Trial]) -> int:
        """Learn from an earlier start of the same sweep; returns how many configurations are known from it."""
        ...

    def ask(self) -> Asked | None:
        """None when there are enough."""
        ...

    def refuse(self, number: int, why: str) -> None:
        """It cannot be run at all."""
        ...

    def tell(self, number: int, trials: Sequence[Trial]) -> None:
        """All of its trials ended, however."""
        ...


class Optimising:
    """One sweep that grows with every configuration that the study asks for."""

    def __init__(self, study: Study, registry: Registry, expander: Expander, sweep: Sweep, view: View) -> None:
        self._study, self._registry, self._expander = study, registry, expander
        self._sweep, self._view = sweep, view
        self._open: dict[int, list[str]] = {}  # asked → its trials
        self._asked: list[tuple[Asked, list[str]]] = []
        self._progress = SweepProgress({})
        self._overrides: list[Sequence[str]] = []
        self._event = registry.last_event_id()
        self._enough = False

    def run(self, pause: Callable[[float], None] = time.sleep) -> list[tuple[int, tuple[Trial, ...]]]:
        """Until the study has enough and all has ended. Each configuration's number and trials, in the order asked."""
        while True:
            self._ask()
            if not self._open:
                break
            self._view.update(self._progress)
            pause(POLL_S)
            self._take_news()
        self._view.update(self._progress)
        trials = {t: self._registry.trial(t) for t in self._progress.trials}  # with what only a comparison told
        return [(asked.number, tuple(trials[t] for t in ids)) for asked, ids in self._asked]

    def _ask(self) -> None:
        while not self._enough and self._has_room():
            if (asked := self._study.ask()) is None:
                self._enough = True
                return
            self._submit(asked)

    def _has_room(self) -> bool:
        """Whether some phone of the farm would run dry."""
        going = [t for trials in self._open.values() for t in trials]
        unfinished = [t for t in map(self._progress.trials.__getitem__, going) if t.state not in FINAL]
        if not unfinished:
            return True
        places = {t.spec.device for t in unfinished}
        if None in places:
            return len(unfinished) < machines(self._registry.devices()) + AHEAD
        queued = [sum(t.spec.device == place for t in unfinished) for place in places]
        return min(queued) <= AHEAD

    def _submit(self, asked: Asked) -> None:
        try:
            specs = self._expander.expand(asked.job)
        except UsageError as error:
            self._study.refuse(asked.number, error.message)
            return
        self._overrides.append(asked.job.overrides)
        record = provenance(self._overrides, specs)
        self._registry.submit(Sweep(self._sweep.sweep_id, self._sweep.name, record=record), specs)
        ids = [spec.trial_id for spec in specs]
        self._asked.append((asked, ids))
        self._open[asked.number] = ids
        for trial_id in ids:
            self._progress.trials[trial_id] = self._registry.trial(trial_id)
        self._tell()

    def _take_news(self) -> None:
        self._event, changed = take_events(self._registry, self._sweep.sweep_id, self._event, self._progress)
        for trial in self._progress.refresh([self._registry.trial(trial_id) for trial_id in changed]):
            self._view.ended(trial)
        self._tell()

    def _tell(self) -> None:
        for number, ids in list(self._open.items()):
            trials = [self._progress.trials[trial_id] for trial_id in ids]
            if all(t.state in FINAL for t in trials):
                del self._open[number]
                self._study.tell(number, trials)


def machines(devices: Sequence[Device]) -> int:
    """How many trials can run at once: phones, and hosts of virtual ones, which they share."""
    usable = [d for d in devices if d.state in (DeviceState.READY, DeviceState.BUSY, DeviceState.COOLING)]
    return max(1, len({d.host if d.simulated else d.name for d in usable}))


def objective(trials: Sequence[Trial], metric: str) -> tuple[float | None, str]:
    """The metric's mean over a configuration's trials; None and why when one of them has none that counts."""
    values = []
    for trial in trials:
        if trial.state is not TrialState.DONE or trial.result is None:
            return None, f"{trial.state.value}: {trial.failure_message or trial.failure_kind or 'no result'}"
        metrics: Mapping[str, float] = trial.result.get("metrics", {})
        void = trial.result.get("tags", {}).get(f"void.{metric}")
        if void is not None or not math.isfinite(metrics.get(metric, math.nan)):
            known = ", ".join(sorted(metrics)) or "none"
            return None, f"{metric} is void: {void}" if void else f"it has no {metric}; metrics: {known}"
        values.append(metrics[metric])
    return sum(values) / len(values), ""
