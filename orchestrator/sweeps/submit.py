"""A batch of configurations into the registry: all of it, or nothing with one clear message."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.entities import Sweep, TrialSpec
from orchestrator.errors import ConfigError, UnknownName
from orchestrator.registry.contract import Registry, Submission
from orchestrator.schema import LeverConf
from orchestrator.sweeps import identity
from orchestrator.sweeps.expand import Expander, Models
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.record import provenance

# Keys that say how the whole batch is run.
ONE_EACH = ("sweep", "runtime", "on_existing", "detach", "schedule.fail_fast", "schedule.max_failures")


@dataclass(frozen=True)
class Batch:
    """Jobs with their trials: two jobs that run alike share a trial."""

    jobs: tuple[SweepJob, ...]
    trials: tuple[tuple[TrialSpec, ...], ...]  # of each job

    @property
    def specs(self) -> list[TrialSpec]:
        """Every trial once, in order."""
        return list({spec.trial_id: spec for specs in self.trials for spec in specs}.values())

    @property
    def runtime(self) -> str:
        return self.jobs[0].conf.runtime

    @property
    def alike(self) -> list[tuple[SweepJob, SweepJob]]:
        """Jobs that share trials with an earlier one, each with that one: nothing that they differ in can change a
        result."""
        first: dict[str, SweepJob] = {}
        found = []
        for job, specs in zip(self.jobs, self.trials, strict=True):
            owners = [first.setdefault(spec.trial_id, job) for spec in specs]
            found += [(job, owner) for owner in owners if owner is not job][:1]
        return found


@dataclass(frozen=True)
class Submitted:
    batch: Batch
    submission: Submission
    known: bool  # the sweep existed before

    @property
    def trial_ids(self) -> list[str]:
        return [spec.trial_id for spec in self.batch.specs]

    @property
    def open(self) -> int:
        """Trials that still have to end."""
        return len(self.submission.queued) + len(self.submission.in_progress)


def plan(jobs: Sequence[SweepJob], registry: Registry, models: Models) -> Batch:
    """Expand and check the whole batch; writes nothing. Raises UsageError naming the job that is wrong."""
    check_one_way(jobs)
    expander = Expander(models, registry.devices())
    return Batch(tuple(jobs), tuple(expander.expand(job) for job in jobs))


def submit(batch: Batch, registry: Registry) -> Submitted:
    """Queue what is missing of the batch: what failed runs again, what is done only with `on_existing=rerun`."""
    sweep, conf = _sweep(batch), batch.jobs[0].conf
    known = _is_known(registry, sweep)
    return Submitted(batch, registry.submit(sweep, batch.specs, rerun=conf.on_existing == "rerun"), known)


def _sweep(batch: Batch) -> Sweep:
    specs, conf = batch.specs, batch.jobs[0].conf
    named = conf.sweep
    sweep_id = identity.sweep_id([spec.trial_id for spec in specs], named)
    pairs = sorted({spec.labels["pair"] for spec in specs})
    record = provenance([job.overrides for job in batch.jobs], specs)
    name = named or f"{'+'.join(pairs)}-{sweep_id[:8]}"
    return Sweep(sweep_id, name, record=record, max_failures=failures_allowed(conf))


def failures_allowed(conf: LeverConf) -> int | None:
    """How many failed trials end a sweep; None: it goes on whatever fails."""
    return 1 if conf.schedule.fail_fast else conf.schedule.max_failures


def _is_known(registry: Registry, sweep: Sweep) -> bool:
    try:
        registry.sweep(sweep.name)
    except UnknownName:
        return False
    return True


def check_one_way(jobs: Sequence[SweepJob]) -> None:
    """Raises ConfigError unless all are to be run in the same way."""
    for key in ONE_EACH:
        _same(jobs, key)


def _same(jobs: Sequence[SweepJob], key: str) -> None:
    values = {operator.attrgetter(key)(job.conf) for job in jobs}
    if len(values) > 1:
        shown = ", ".join(sorted(map(str, values)))
        raise ConfigError(f"one batch has one {key}, not {shown}", f"Give {key}= one value.")
