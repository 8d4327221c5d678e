"""A batch of configurations into the registry: all of it, or nothing with one clear message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.entities import Sweep, TrialSpec
from orchestrator.errors import ConfigError, UnknownName
from orchestrator.registry.contract import Registry, Submission
from orchestrator.sweeps import identity
from orchestrator.sweeps.expand import Expander, Models
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.record import provenance


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
    for key in ("sweep", "runtime"):
        _same(jobs, key)
    expander = Expander(models, registry.devices())
    return Batch(tuple(jobs), tuple(expander.expand(job) for job in jobs))


def submit(batch: Batch, registry: Registry) -> Submitted:
    """Queue what is missing of the batch; what is done is reused, what failed runs again."""
    sweep = _sweep(batch)
    known = _is_known(registry, sweep)
    return Submitted(batch, registry.submit(sweep, batch.specs), known)


def _sweep(batch: Batch) -> Sweep:
    specs, named = batch.specs, batch.jobs[0].conf.sweep
    sweep_id = identity.sweep_id([spec.trial_id for spec in specs], named)
    pairs = sorted({spec.labels["pair"] for spec in specs})
    record = provenance([job.overrides for job in batch.jobs], specs)
    return Sweep(sweep_id, named or f"{'+'.join(pairs)}-{sweep_id[:8]}", record=record)


def _is_known(registry: Registry, sweep: Sweep) -> bool:
    try:
        registry.sweep(sweep.name)
    except UnknownName:
        return False
    return True


def _same(jobs: Sequence[SweepJob], key: str) -> None:
    values = {getattr(job.conf, key) for job in jobs}
    if len(values) > 1:
        shown = ", ".join(sorted(map(str, values)))
        raise ConfigError(f"one batch has one {key}, not {shown}", f"Give {key}= one value.")
