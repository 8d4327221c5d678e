"""Ask and tell: a configuration is asked for whenever the farm has room for one, and told as soon as it ended, so that
no phone waits for the slowest of a batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from orchestrator.entities import Device, DeviceState, Sweep, Trial, TrialSpec, TrialState
from orchestrator.errors import UsageError
from orchestrator.registry.contract import Registry
from orchestrator.sweeps.expand import Expander
from orchestrator.sweeps.follow import POLL_S, REFRESH_S, View, take_events
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.live_view import NoView
from orchestrator.sweeps.progress import FINAL, SweepProgress
from orchestrator.sweeps.record import packs_of
from orchestrator.sweeps.submit import check_one_way, failures_allowed

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
    """One sweep that grows with every configuration that the study asks for. `template`: what says how all of them are
    run; `sweep`: with the record that grows with them."""

    def __init__(self, study: Study, registry: Registry, expander: Expander, sweep: Sweep, template: SweepJob) -> None:
        self._study, self._registry, self._expander = study, registry, expander
        self._sweep, self._template = sweep, template
        self._open: dict[int, list[str]] = {}  # asked → its trials
        self._asked: list[tuple[Asked, list[str]]] = []
        self._progress = SweepProgress({})
        self._event = registry.last_event_id()
        self._refreshed = time.monotonic()
        self._enough = False
        self.cancelled = False  # the sweep was, by whoever

    def run(self, pause: Callable[[float], None], view: View) -> list[tuple[int, tuple[Trial, ...]]]:
        """Until the study has enough and all has ended. Each configuration's number and trials, in the order asked."""
        while True:
            self._ask()
            if not self._open:
                break
            view.update(self._progress)
            pause(POLL_S)
            for trial in self._take_news():
                view.ended(trial)
        view.update(self._progress)
        trials = {t: self._registry.trial(t) for t in self._progress.trials}  # with what only a comparison told
        return [(asked.number, tuple(trials[t] for t in ids)) for asked, ids in self._asked]

    def leave(self, pause: Callable[[float], None]) -> None:
        """After a cancel: until what runs was stopped, so that phones are left clean."""
        self._enough = True
        self.run(pause, NoView())

    def _ask(self) -> None:
        while not self._enough and self._has_room():
            if (asked := self._study.ask()) is None:
                self._enough = True
                return
            self._submit(asked)

    def _has_room(self) -> bool:
        """Whether some phone of the farm would run dry."""
        unfinished = [t for t in map(self._progress.trials.__getitem__, self._going()) if t.state not in FINAL]
        if not unfinished:
            return True
        places = {t.spec.device for t in unfinished}
        if None in places:
            return len(unfinished) < machines(self._registry.devices()) + AHEAD
        queued = [sum(t.spec.device == place for t in unfinished) for place in places]
        return min(queued) <= AHEAD

    def _submit(self, asked: Asked) -> None:
        try:
            check_one_way([self._template, asked.job])
            specs = self._expander.expand(asked.job)
        except UsageError as error:
            self._study.refuse(asked.number, error.message)
            return
        self._sweep = replace(self._sweep, record=grown(self._sweep.record, asked.job, specs))
        new = [spec for spec in specs if spec.trial_id not in self._progress.trials]
        if new:  # else it was asked for before, and is not run again
            self._registry.submit(self._sweep, new, rerun=self._template.conf.on_existing == "rerun")
        ids = [spec.trial_id for spec in specs]
        self._asked.append((asked, ids))
        self._open[asked.number] = ids
        for spec in new:
            self._progress.trials[spec.trial_id] = self._registry.trial(spec.trial_id)
        self._tell()

    def _take_news(self) -> list[Trial]:
        """Returns the trials that ended."""
        news = take_events(self._registry, self._sweep.sweep_id, self._event, self._progress)
        self._event, stale = news.last_event, time.monotonic() - self._refreshed > REFRESH_S
        if news.cancelled:  # nothing more is asked for, and what we asked for meanwhile is not run either
            self.cancelled = True
            self._end()
        changed = self._going() if stale or news.cancelled else news.changed
        self._refreshed = time.monotonic() if stale else self._refreshed
        ended = self._progress.refresh([self._registry.trial(trial_id) for trial_id in changed])
        self._tell()
        return ended

    def _end(self) -> None:
        self._enough = True
        self._registry.cancel(self._sweep.sweep_id)

    def _going(self) -> list[str]:
        return [trial_id for trials in self._open.values() for trial_id in trials]

    def _tell(self) -> None:
        for number, ids in list(self._open.items()):
            trials = [self._progress.trials[trial_id] for trial_id in ids]
            if all(t.state in FINAL for t in trials):
                del self._open[number]
                self._study.tell(number, trials)
        most = failures_allowed(self._template.conf)
        if most is not None and not self._enough and self._progress.counts[TrialState.FAILED] >= most:
            self._end()  # the registry does it as well, where something waits


def grown(record: Mapping[str, Any], job: SweepJob, specs: Sequence[TrialSpec]) -> dict[str, Any]:
    """A sweep's record with one more configuration."""
    packs = sorted({*record["packs"], *packs_of(specs)})
    return {**record, "overrides": [*record["overrides"], list(job.overrides)], "packs": packs}


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
