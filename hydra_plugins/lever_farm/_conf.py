"""What every composition of ours needs in Hydra's stores: the schema, our launcher and sweepers, a resolver."""

from __future__ import annotations

from dataclasses import dataclass, field

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from orchestrator import settings
from orchestrator.schema import LeverConf


@dataclass
class LeverLauncherConf:
    _target_: str = "hydra_plugins.lever_farm.launcher.LeverLauncher"
    show: str = ""  # instead of running the batch: plan | job | hydra | all
    package: str | None = None  # of what is shown
    resolve: bool = False


@dataclass
class LeverSweeperConf:
    _target_: str = "hydra_plugins.lever_farm.sweeper.LeverSweeper"
    params: dict[str, str] = field(
        default_factory=dict
    )  # sweeps given in a config file: {"engine.drafting.k": "3,5,8"}


@dataclass
class OptimiserConf:
    """Asks for a configuration whenever a phone has room, and is told each result as it comes."""

    _target_: str = "hydra_plugins.lever_farm.optimiser.LeverOptimiser"
    params: dict[str, str] = field(default_factory=dict)  # as in LeverSweeperConf
    objectives: list[str] = field(default_factory=lambda: ["tpot_s:minimize"])  # metric:minimize | metric:maximize
    n_trials: int = 20  # configurations
    sampler: str = "tpe"  # tpe | nsgaii | random
    seed: int = 0


def register() -> None:
    store = ConfigStore.instance()
    store.store(name="lever_schema", node=LeverConf, provider="lever_farm")
    store.store(group="hydra/launcher", name="lever", node=LeverLauncherConf, provider="lever_farm")
    store.store(group="hydra/sweeper", name="lever", node=LeverSweeperConf, provider="lever_farm")
    store.store(group="hydra/sweeper", name="optimise", node=OptimiserConf, provider="lever_farm")
    OmegaConf.register_new_resolver("lever_home", lambda: str(settings.load().home), replace=True)
