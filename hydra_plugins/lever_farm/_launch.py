"""A composed batch through the farm, and what Hydra wants to know of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import TaskFunction

from hydra_plugins.lever_farm._compose import Composed, save
from orchestrator.entities import Trial, TrialState
from orchestrator.errors import TrialsFailed
from orchestrator.ratios import Ratio, ratios
from orchestrator.sweeping import Ended, run_jobs
from orchestrator.sweeps.describe import result_text, trial_text
from orchestrator.table import Row, rows

DONE = (TrialState.DONE,)
OPEN = (TrialState.DONE, TrialState.WAITING, TrialState.RUNNING)


@dataclass
class LeverJobReturn(JobReturn):
    """With the rows of the job's trials, failed ones included, the sweep that they belong to, and the speed-ups of the
    whole batch."""

    sweep: str = ""
    rows: Sequence[Row] = ()
    ratios: Sequence[Ratio] = ()


def run_batch(composed: Sequence[Composed], callbacks: Callbacks, task_function: TaskFunction) -> list[LeverJobReturn]:
    """Submit, follow and collect; `.hydra` folders are written once the whole batch is accepted."""

    def accepted() -> None:
        for one in composed:
            save(one)
            callbacks.on_job_start(config=one.cfg, task_function=task_function)

    ended = run_jobs([one.job for one in composed], accepted)
    return job_returns(composed, ended, callbacks)


def job_returns(composed: Sequence[Composed], ended: Ended, callbacks: Callbacks) -> list[LeverJobReturn]:
    """One for each configuration, in order."""
    speedups = ratios({t.spec.trial_id: t for trials in ended.trials for t in trials}.values())
    returns = [_job_return(one, ended, trials, speedups) for one, trials in zip(composed, ended.trials, strict=True)]
    for one, job_return in zip(composed, returns, strict=True):
        callbacks.on_job_end(config=one.cfg, job_return=job_return)
    return returns


def _job_return(one: Composed, ended: Ended, trials: Sequence[Trial], speedups: Sequence[Ratio]) -> LeverJobReturn:
    """COMPLETED with one dict a trial, or FAILED with an error that names the job's failed trials."""
    job_return = LeverJobReturn(
        overrides=list(one.job.overrides),
        cfg=one.task,
        hydra_cfg=one.hydra,
        working_dir=os.getcwd(),
        task_name=one.cfg.hydra.job.name,
        sweep=ended.sweep.name,
        rows=() if ended.detached else rows(trials, ended.devices),
        ratios=() if ended.detached else speedups,
    )
    failed = [trial for trial in trials if trial.state not in (OPEN if ended.detached else DONE)]
    job_return.status = JobStatus.FAILED if failed else JobStatus.COMPLETED
    if failed:
        job_return.return_value = TrialsFailed("; ".join(f"{trial_text(t)}: {result_text(t)}" for t in failed))
    else:
        job_return.return_value = [_returned(trial) for trial in trials]
    return job_return


def _returned(trial: Trial) -> dict[str, Any]:
    metrics = (trial.result or {}).get("metrics", {})
    return {"trial_id": trial.spec.trial_id, "device": trial.device, "repeat": trial.spec.repeat, "metrics": metrics}
