"""The sweeper: every combination of the swept overrides, handed to the launcher as one batch."""

from __future__ import annotations

from collections.abc import Sequence

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from orchestrator.errors import ConfigError


class LeverSweeper(Sweeper):
    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = params or {}
        self.launcher: Launcher

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        _refuse_other_launchers(config)
        self._context, self._task_function, self._config = hydra_context, task_function, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Launch all jobs as one batch and return it, failed jobs included: who called decides on exit codes."""
        parser = OverridesParser.create(config_loader=self._context.config_loader)
        (batch,) = BasicSweeper.split_arguments(parser.parse_overrides(self._given(arguments)), max_batch_size=None)
        return [self.launcher.launch(batch, initial_job_idx=0)]

    def _given(self, arguments: list[str]) -> list[str]:
        """What the configuration sweeps, and what was typed."""
        return [f"{key}={value}" for key, value in self.params.items()] + arguments


def _refuse_other_launchers(config: DictConfig) -> None:
    """Raises ConfigError."""
    if config.hydra.runtime.choices.get("hydra/launcher") != "lever":
        raise ConfigError("hydra/launcher is not lever: nothing else runs trials on phones", "Leave it out.")
