"""The launcher: composes and checks a whole batch, submits it to the farm, follows it and returns honest results."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.utils import JobReturn, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class LeverLauncher(Launcher):
    """Thin: Hydra imports every plugin at every start, so the farm is imported in `launch` only."""

    def __init__(self, show: str = "", package: str | None = None, resolve: bool = False) -> None:
        self.show, self.package, self.resolve = show, package, resolve

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._hydra_context, self._task_function, self._config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """One JobReturn a job, in order; a failed trial makes its own job FAILED and no other. With `show` nothing is
        run or written, and nothing returned.

        Raises UsageError, before anything is queued or written, when any job of the batch cannot be run.
        """
        from hydra_plugins.lever_farm._compose import compose_batch

        setup_globals()
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        loader = self._hydra_context.config_loader
        composed = compose_batch(loader, self._config, job_overrides, initial_job_idx)
        if self.show:
            from hydra_plugins.lever_farm._show import show

            show(composed, self.show, self.package, self.resolve)
            return []
        from hydra_plugins.lever_farm._launch import run_batch  # the farm: only for a batch that composes

        return run_batch(composed, self._hydra_context.callbacks, self._task_function)
