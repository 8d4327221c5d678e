"""A study's configurations through the farm, each as soon as a phone has room for it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import click
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.lever_farm._compose import Composed, Composer, save
from hydra_plugins.lever_farm._launch import job_returns
from hydra_plugins.lever_farm._study import STARTUP, OptunaStudy, parse
from orchestrator.errors import ConfigError, TrialsFailed
from orchestrator.sweeping import run_study
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.submit import ONE_EACH

RESULTS = "optimization_results.yaml"  # as Hydra's own optimising sweepers call it


class Optimiser:
    def __init__(self, context: HydraContext, config: DictConfig, task: TaskFunction, arguments: Sequence[str]) -> None:
        self._context, self._config, self._task, self._arguments = context, config, task, list(arguments)
        self._composer = Composer(context.config_loader, config)
        self._composed: dict[int, Composed] = {}

    def run(self, launcher: Launcher) -> Sequence[JobReturn]:
        """Raises UsageError, before anything is queued, when the space or what it varies cannot be run."""
        sweeper = self._config.hydra.sweeper
        study = OptunaStudy(
            parse(self._arguments, self._context.config_loader),
            list(sweeper.objectives),
            sweeper.n_trials,
            sweeper.sampler,
            sweeper.seed,
            self._compose,
        )
        template = self._composer.compose(0, study.fixed, [], alone=True).job
        _refuse(study, template)
        if self._config.hydra.launcher.show:
            return self._shown(study, launcher)
        ended = run_study(study, template, template.conf.sweep or self._name(template, study))
        composed = [self._composed[number] for number in ended.numbers]
        for one in composed:
            save(one)
            self._context.callbacks.on_job_start(config=one.cfg, task_function=self._task)
        returns = job_returns(composed, ended.ended, self._context.callbacks)
        failed = any(one.status is JobStatus.FAILED for one in returns)
        self._tell(study, ended.ended.sweep.name, failed)
        if ended.cancelled and not failed:  # else whoever runs Hydra's jobs tells
            raise TrialsFailed(
                f"sweep {ended.ended.sweep.name} was cancelled after {len(returns)} configurations",
                "The same command goes on with what is known.",
            )
        return returns

    def _compose(self, number: int, overrides: Sequence[str], chosen: Sequence[str]) -> SweepJob:
        self._composed[number] = self._composer.compose(number, overrides, chosen, alone=False)
        return self._composed[number].job

    def _name(self, template: SweepJob, study: OptunaStudy) -> str:
        """The same search is the same sweep, and goes on where it was."""
        what = [*sorted(self._arguments), str(study.objectives), str(self._config.hydra.sweeper.seed)]
        digest = hashlib.sha256("\n".join(what).encode()).hexdigest()[:8]
        return f"{template.conf.pair.name}-optimise-{digest}"

    def _shown(self, study: OptunaStudy, launcher: Launcher) -> Sequence[JobReturn]:
        """The first configurations: the others depend on results."""
        first = [self._composed[a.number].job.overrides for _ in range(STARTUP) if (a := study.ask())]
        returns = launcher.launch(first, initial_job_idx=0)
        goals = ", ".join(f"{metric} ({direction})" for metric, direction in study.objectives.items())
        rest = max(0, self._config.hydra.sweeper.n_trials - len(first))
        click.echo(f"Optimises {goals}. And {rest} more configurations, which depend on results.", err=True)
        return returns

    def _tell(self, study: OptunaStudy, sweep: str, failed: bool) -> None:
        """Raises ConfigError when there is nothing to tell although no trial failed: the objective is wrong."""
        best = study.best()
        if not best and failed:
            return
        if not best:
            why = study.failures[0] if study.failures else "nothing was run"
            raise ConfigError(f"sweep {sweep} has no configuration with a result: {why}", f"See: lever results {sweep}")
        click.echo("Best:" if len(study.objectives) == 1 else "Best, none of which another beats in everything:")
        for one in best:
            values = ", ".join(f"{metric} {value:.4g}" for metric, value in one["values"].items())
            click.echo(f"  {values}: {' '.join(f'{k}={v}' for k, v in one['params'].items())}")
        if study.failures:
            click.echo(f"{len(study.failures)} configurations gave no figure; the first: {study.failures[0]}")
        folder = Path(str(self._config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(OmegaConf.create({"name": "optuna", "solutions": best}), folder / RESULTS)


def _refuse(study: OptunaStudy, template: SweepJob) -> None:
    """Raises ConfigError for what a search cannot do."""
    if swept := next((key for key in ONE_EACH if key in study.swept), None):
        raise ConfigError(
            f"{swept} cannot be searched: it says how the whole sweep is run", f"Give {swept}= one value."
        )
    if template.conf.detach:
        raise ConfigError(
            "detach=true: this process asks for each configuration when another one's result is there",
            "Leave detach out. After Ctrl-C the same command goes on with what is known.",
        )
