"""A batch shown instead of run: its plan, or each job's configuration."""

from __future__ import annotations

from collections.abc import Sequence

import click
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.lever_farm._compose import Composed
from orchestrator.errors import ConfigError


def show(composed: Sequence[Composed], what: str, package: str | None, resolve: bool) -> None:
    """To standard output. `what`: plan | job | hydra | all, the latter three as `--cfg` names them. Raises UsageError
    as running the batch would."""
    if what == "plan":
        from orchestrator.sweeping import show_plan

        show_plan([one.job for one in composed])
        return
    for number, one in enumerate(composed):
        if len(composed) > 1:
            click.echo(f"{'---' if number else ''}\n# {one.job.name}".lstrip("\n"))
        click.echo(_yaml(_node(one, what), package, resolve), nl=False)


def _node(one: Composed, what: str) -> DictConfig:
    return {"job": one.task, "hydra": one.hydra, "all": one.cfg}[what]


def _yaml(config: DictConfig, package: str | None, resolve: bool) -> str:
    if package is None:
        return OmegaConf.to_yaml(config, resolve=resolve)
    found = OmegaConf.select(config, package)
    if found is None:
        raise ConfigError(f"--package {package}: there is no such part of the configuration", "For example: engine")
    if not OmegaConf.is_config(found):
        return f"{found}\n"
    return f"# @package {package}\n{OmegaConf.to_yaml(found, resolve=resolve)}"
