"""A batch from configurations to results: check, submit, see that a farm works on it, follow it, tell how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from rich.console import Console

from orchestrator import settings as farm_settings
from orchestrator import wiring
from orchestrator.entities import Device, Sweep, Trial
from orchestrator.registry.contract import Registry
from orchestrator.service.up import ensure_up
from orchestrator.settings import Settings
from orchestrator.sweeps.follow import follow
from orchestrator.sweeps.inline_farm import inline_farm
from orchestrator.sweeps.interrupt import ask_and_leave
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.live_view import NoView, open_view
from orchestrator.sweeps.submit import Submitted, plan, submit

Pause = Callable[[float], None]


@dataclass(frozen=True)
class Ended:
    """A batch that ran: `trials` of each job, in order, and the phones of the farm."""

    sweep: Sweep
    trials: tuple[tuple[Trial, ...], ...]
    devices: tuple[Device, ...]


def run_jobs(jobs: Sequence[SweepJob], accepted: Callable[[], None]) -> Ended:
    """Run what is missing of a batch and wait for it. `accepted` is called when all of it is found to be right, before
    it is queued.

    Raises UsageError before anything is queued when a job cannot be run, KeyboardInterrupt after a detach or a cancel.
    """
    settings, console = farm_settings.load(), Console(stderr=True)
    with closing(wiring.open_registry(settings)) as registry:
        batch = plan(jobs, registry, wiring.model_store(settings))
        accepted()
        submitted = submit(batch, registry)
        _say(console, opening(submitted))
        with _farm(submitted, settings, console) as pause:
            ended = {trial.spec.trial_id: trial for trial in _follow(submitted, registry, console, pause)}
        trials = tuple(tuple(ended[spec.trial_id] for spec in specs) for specs in submitted.batch.trials)
        return Ended(submitted.submission.sweep, trials, tuple(registry.devices()))


def opening(submitted: Submitted) -> str:
    """What was found: `sweep qwen-coder-1a2b3c4d: 4 trials, 3 done before, 1 to run`."""
    found = submitted.submission
    parts = [
        f"{len(submitted.trial_ids)} trials",
        f"{len(found.reused)} done before" if found.reused else "",
        f"{len(found.in_progress)} already under way" if found.in_progress else "",
        f"{len(found.queued)} to run" if submitted.open else "nothing to run",
    ]
    return f"sweep {found.sweep.name}: {', '.join(part for part in parts if part)}"


@contextmanager
def _farm(submitted: Submitted, settings: Settings, console: Console) -> Iterator[Pause]:
    """A farm that works on the batch while the block runs, and how to wait in it. None is started for a batch that is
    done, unless its sweep is new and still has to be told to the tracker."""
    if not submitted.open and submitted.known:
        yield time.sleep
    elif submitted.batch.runtime == "ray":
        _ensure_up(submitted, settings, console)
        yield time.sleep
    else:
        with inline_farm(settings) as farm:
            yield farm.wait


def _ensure_up(submitted: Submitted, settings: Settings, console: Console) -> None:
    try:
        ensure_up(settings, lambda step: _say(console, f"· {step}"))
    except KeyboardInterrupt:
        _say(
            console, f"sweep {submitted.submission.sweep.name} stays queued: the same command, or `lever up`, runs it."
        )
        raise


def _follow(submitted: Submitted, registry: Registry, console: Console, pause: Pause) -> list[Trial]:
    sweep, after = submitted.submission.sweep, submitted.submission.event_id
    try:
        with open_view(console) as view:
            return follow(registry, sweep.sweep_id, submitted.trial_ids, after, view, pause)
    except KeyboardInterrupt:
        cancelled = ask_and_leave(registry, sweep, submitted.batch.runtime, console)
        if cancelled and submitted.batch.runtime == "inline":  # this process is the farm: see the phones left clean
            follow(registry, sweep.sweep_id, submitted.trial_ids, after, NoView(), pause)
        raise


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
