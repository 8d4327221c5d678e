"""The optimising sweeper: `hydra/sweeper=optimise`, ask and tell on optuna."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn, configure_log, setup_globals

from hydra_plugins.lever_farm.sweeper import LeverSweeper


class LeverOptimiser(LeverSweeper):
    """Thin, as all plugins are: optuna and the farm are imported in `sweep` only. Its settings are OptimiserConf's."""

    def __init__(self, params: dict[str, str], **_settings: Any) -> None:
        super().__init__(dict(params))

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """All configurations as one batch, in the order asked. What is best is printed and written to
        optimization_results.yaml in hydra.sweep.dir."""
        from hydra_plugins.lever_farm._optimise import Optimiser

        setup_globals()
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        optimiser = Optimiser(self._context, self._config, self._task_function, self._given(arguments))
        return [optimiser.run(self.launcher)]
