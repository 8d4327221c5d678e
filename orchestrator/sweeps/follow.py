"""Follow a batch of trials in the registry until the last one ended, showing what happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.entities import Trial
from orchestrator.registry.contract import Registry
from orchestrator.sweeps.progress import SweepProgress

POLL_S = 0.25
REFRESH_S = 2.0  # states arrive as events; reasons for waiting only by reading all trials
LARGE = 200  # trials, from which on that is done less often
EVENTS = 1000  # a query
COMPARED_S = 10.0


class View(Protocol):
    """Where progress is shown."""

    def update(self, progress: SweepProgress) -> None:
        """Several times a second."""

    def ended(self, trial: Trial) -> None:
        """Once for each trial that ended while we watched."""


@dataclass(frozen=True)
class News:
    last_event: int
    changed: tuple[str, ...]  # trials whose state may have changed, in order
    cancelled: bool  # the sweep was: which of its trials that concerns is not told one by one


def follow(
    registry: Registry,
    sweep_id: str,
    trial_ids: Sequence[str],
    after_event: int,
    view: View,
    pause: Callable[[float], None] = time.sleep,
) -> list[Trial]:
    """Blocks until every trial of `trial_ids` is done, failed or cancelled; returns them in that order.

    `after_event` is the id of the last event that is known (Submission.event_id). `pause` waits between two looks and
    may raise to end the following.
    """
    wanted = set(trial_ids)
    progress = SweepProgress.of(trial for trial in registry.trials(sweep_id) if trial.spec.trial_id in wanted)
    refreshed, watched = time.monotonic(), not progress.finished
    while not progress.finished:
        view.update(progress)
        pause(POLL_S)
        news = take_events(registry, sweep_id, after_event, progress)
        after_event, stale = news.last_event, time.monotonic() - refreshed
        if news.cancelled or stale > REFRESH_S * max(1.0, len(wanted) / LARGE):
            trials, refreshed = registry.trials(sweep_id), time.monotonic()
        else:
            trials = [registry.trial(trial_id) for trial_id in news.changed]
        for trial in progress.refresh(trials):
            view.ended(trial)
    view.update(progress)
    if watched:
        _await_comparisons(registry, wanted, pause)
        progress.refresh(registry.trials(sweep_id))
    return [progress.trials[trial_id] for trial_id in trial_ids]


def _await_comparisons(registry: Registry, wanted: set[str], pause: Callable[[float], None]) -> None:
    """Exactness and speed-up come a moment after a trial's end; a farm that owes them for long is not waited for."""
    deadline = time.monotonic() + COMPARED_S
    while wanted & {trial.spec.trial_id for trial in registry.underived(len(wanted))}:
        if time.monotonic() > deadline:
            return
        pause(POLL_S)


def take_events(registry: Registry, sweep_id: str, after: int, progress: SweepProgress) -> News:
    """What happened to the sweep after that event, applied to `progress`."""
    changed: dict[str, None] = {}
    cancelled = False
    while events := registry.events(after, sweep_id, EVENTS):
        for event in events:
            cancelled |= event.kind == "sweep_cancelled"
            if progress.apply(event) and event.trial_id:
                changed[event.trial_id] = None
        after = events[-1].event_id
    return News(after, tuple(changed), cancelled)
