"""A batch from configurations to results: check, submit, see that a farm works on it, follow it, tell how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from rich.console import Console

from orchestrator import settings as farm_settings
from orchestrator import wiring
from orchestrator.entities import Device, Sweep, Trial, TrialState
from orchestrator.errors import UnknownName
from orchestrator.registry.contract import Registry
from orchestrator.service.up import ensure_up
from orchestrator.settings import Settings
from orchestrator.sweeps import identity
from orchestrator.sweeps.expand import Expander
from orchestrator.sweeps.follow import follow
from orchestrator.sweeps.inline_farm import inline_farm
from orchestrator.sweeps.interrupt import ask_and_leave
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.live_view import NoView, open_view
from orchestrator.sweeps.optimise import Optimising, Study
from orchestrator.sweeps.preview import preview, print_plan
from orchestrator.sweeps.record import provenance
from orchestrator.sweeps.submit import Submitted, failures_allowed, plan, submit

Pause = Callable[[float], None]
ALIKE_SHOWN = 5  # lines


@dataclass(frozen=True)
class Ended:
    """A batch that ran: `trials` of each job, in order, and the phones of the farm."""

    sweep: Sweep
    trials: tuple[tuple[Trial, ...], ...]
    devices: tuple[Device, ...]
    detached: bool = False  # queued, and not waited for


@dataclass(frozen=True)
class Course:
    """Trials of a sweep that are to be seen through."""

    sweep: Sweep
    trial_ids: Sequence[str]
    after_event: int
    runtime: str  # ray | inline
    work: bool  # there is something to run, or to tell the tracker


def run_jobs(jobs: Sequence[SweepJob], accepted: Callable[[], None]) -> Ended:
    """Run what is missing of a batch and wait for it, unless it says `detach`. `accepted` is called when all of it is
    found to be right, before it is queued.

    Raises UsageError before anything is queued when a job cannot be run, KeyboardInterrupt after a detach or a cancel.
    """
    settings, console = farm_settings.load(), Console(stderr=True)
    with closing(wiring.open_registry(settings)) as registry:
        batch = plan(jobs, registry, wiring.model_store(settings))
        accepted()
        submitted = submit(batch, registry)
        for line in (opening(submitted), *alike(submitted)):
            _say(console, line)
        course = _course(submitted)
        if detached := batch.jobs[0].conf.detach:
            _detach(course, settings, console)
            ended = {t.spec.trial_id: t for t in registry.trials(course.sweep.sweep_id)}
        else:
            ended = {trial.spec.trial_id: trial for trial in _see_through(course, registry, settings, console)}
        trials = tuple(tuple(ended[spec.trial_id] for spec in specs) for specs in submitted.batch.trials)
        return Ended(course.sweep, trials, tuple(registry.devices()), detached)


def attach(registry: Registry, sweep: Sweep, runtime: str) -> list[Trial]:
    """Follow all trials of the sweep until they ended. Raises KeyboardInterrupt after a detach or a cancel."""
    after = registry.last_event_id()
    trial_ids = [trial.spec.trial_id for trial in registry.trials(sweep.sweep_id)]
    work = sweep.sweep_id in {other.sweep_id for other in registry.unfinished()}
    course = Course(sweep, trial_ids, after, runtime, work)
    return _see_through(course, registry, farm_settings.load(), Console(stderr=True))


@dataclass(frozen=True)
class Studied:
    """What a study asked for, by number, and how it ended."""

    numbers: tuple[int, ...]
    ended: Ended
    cancelled: bool  # before it had enough, as far as it knows


def run_study(study: Study, template: SweepJob, name: str) -> Studied:
    """Ask and tell until the study has enough. `template`: what every configuration has in common; it is checked before
    the farm is started. Raises UsageError then, KeyboardInterrupt after a detach or a cancel."""
    settings, console = farm_settings.load(), Console(stderr=True)
    with closing(wiring.open_registry(settings)) as registry:
        expander = Expander(wiring.model_store(settings), registry.devices())
        expander.expand(template)
        known = trials_of(registry, name)
        sweep = _study_sweep(registry, template, name, known)
        before = study.restore(known) if template.conf.on_existing == "skip" else 0
        _say(console, f"sweep {name}: {before} configurations known before")
        course = Course(sweep, (), 0, template.conf.runtime, work=True)
        with _farm(course, registry, settings, console) as pause:
            search = Optimising(study, registry, expander, sweep, template)
            try:
                with open_view(console) as view:
                    found = search.run(pause, view)
            except KeyboardInterrupt:
                if ask_and_leave(registry, sweep, course.runtime, console) and course.runtime == "inline":
                    search.leave(pause)
                raise
        ended = Ended(sweep, tuple(trials for _, trials in found), tuple(registry.devices()))
        return Studied(tuple(number for number, _ in found), ended, search.cancelled)


def _study_sweep(registry: Registry, template: SweepJob, name: str, known: Sequence[Trial]) -> Sweep:
    """As it is before its first configuration; what failed in an earlier search is not held against this one."""
    sweep = Sweep(identity.sweep_id([], name), name, record=provenance([], [t.spec for t in known]))
    if known:
        sweep.record["overrides"] = registry.sweep(name).record.get("overrides", [])
    if (most := failures_allowed(template.conf)) is None:
        return sweep
    return replace(sweep, max_failures=most + sum(t.state is TrialState.FAILED for t in known))


def trials_of(registry: Registry, name: str) -> list[Trial]:
    """None for a sweep that is new."""
    try:
        return registry.trials(registry.sweep(name).sweep_id)
    except UnknownName:
        return []


def show_plan(jobs: Sequence[SweepJob]) -> None:
    """What `run_jobs` would do: trials, phones, how long; nothing is queued. Raises UsageError as it would."""
    settings = farm_settings.load()
    with closing(wiring.open_registry(settings)) as registry:
        batch = plan(jobs, registry, wiring.model_store(settings))
        print_plan(Console(), preview(batch, registry))


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


def alike(submitted: Submitted) -> list[str]:
    """Which jobs share their trials with others; said, since fewer trials run than were asked for."""
    pairs = submitted.batch.alike
    lines = [f"{job.name} is the same trial as {same.name}: they differ in nothing that is used" for job, same in pairs]
    more = [f"… and {len(lines) - ALIKE_SHOWN} more jobs that are others' trials"] if len(lines) > ALIKE_SHOWN else []
    return lines[:ALIKE_SHOWN] + more


def _course(submitted: Submitted) -> Course:
    found = submitted.submission
    work = bool(submitted.open) or not submitted.known
    return Course(found.sweep, submitted.trial_ids, found.event_id, submitted.batch.runtime, work)


def _detach(course: Course, settings: Settings, console: Console) -> None:
    if course.work:
        _ensure_up(course, settings, console)
    _say(console, f"detached. Follow it: lever attach {course.sweep.name}")


def _see_through(course: Course, registry: Registry, settings: Settings, console: Console) -> list[Trial]:
    with _farm(course, registry, settings, console) as pause:
        return _follow(course, registry, console, pause)


@contextmanager
def _farm(course: Course, registry: Registry, settings: Settings, console: Console) -> Iterator[Pause]:
    """A farm that works on the trials while the block runs, and how to wait in it. None is started when there is no
    work."""
    if not course.work:
        yield time.sleep
    elif course.runtime == "ray":
        _ensure_up(course, settings, console)
        yield time.sleep
    else:
        others = [s.name for s in registry.unfinished() if s.sweep_id != course.sweep.sweep_id]
        if others:
            _say(console, f"this process also works on what is not finished: {', '.join(others)}")
        with inline_farm(settings) as farm:
            yield farm.wait


def _ensure_up(course: Course, settings: Settings, console: Console) -> None:
    try:
        ensure_up(settings, lambda step: _say(console, f"· {step}"))
    except KeyboardInterrupt:
        _say(console, f"sweep {course.sweep.name} stays queued: the same command, or `lever up`, runs it.")
        raise


def _follow(course: Course, registry: Registry, console: Console, pause: Pause) -> list[Trial]:
    sweep, after = course.sweep, course.after_event
    try:
        with open_view(console) as view:
            return follow(registry, sweep.sweep_id, course.trial_ids, after, view, pause)
    except KeyboardInterrupt:
        cancelled = ask_and_leave(registry, sweep, course.runtime, console)
        if cancelled and course.runtime == "inline":  # this process is the farm: see the phones left clean
            follow(registry, sweep.sweep_id, course.trial_ids, after, NoView(), pause)
        raise


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
