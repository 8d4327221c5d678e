"""A batch's configurations, each composed once. Composing from the defaults list takes some 180 ms, so it is done once
for each combination of config groups; plain overrides are applied to a copy."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.conf import HydraConf
from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import filter_overrides
from omegaconf import Container, DictConfig, OmegaConf, open_dict, read_write

from hydra_plugins.lever_farm._errors import HYDRA_ERRORS, explain, refuse_unknown
from orchestrator.errors import ConfigError
from orchestrator.schema import LeverConf
from orchestrator.sweeps.identity import VOLATILE, leaves
from orchestrator.sweeps.jobs import SweepJob, name_error

DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TYPED = OmegaConf.structured(LeverConf)


@dataclass(frozen=True)
class Composed:
    """A job's whole configuration, with the hydra node that belongs to it, and what the farm needs of it."""

    cfg: DictConfig
    task: DictConfig  # without the hydra node
    job: SweepJob
    output_dir: Path

    @cached_property
    def hydra(self) -> DictConfig:
        return OmegaConf.masked_copy(self.cfg, ["hydra"])


def compose_batch(
    loader: ConfigLoader, config: DictConfig, batch: Sequence[Sequence[str]], first: int
) -> list[Composed]:
    """Every job of the batch, or ConfigError for the first that is wrong."""
    composer = Composer(loader, config)
    common = set.intersection(*(set(overrides) for overrides in batch))
    return [
        composer.compose(first + i, overrides, [o for o in overrides if o not in common], alone=len(batch) == 1)
        for i, overrides in enumerate(batch)
    ]


class Composer:
    """Composes the jobs of one batch; `config` is the configuration that the batch itself was started with."""

    def __init__(self, loader: ConfigLoader, config: DictConfig) -> None:
        self._loader, self._config = loader, config
        self._parser = OverridesParser.create(config_loader=loader)
        self._bases: dict[tuple[str, ...], DictConfig] = {}
        self._groups: dict[str, bool] = {}

    def compose(self, number: int, overrides: Sequence[str], distinct: Sequence[str], alone: bool) -> Composed:
        """Raises ConfigError naming the job for whatever is wrong with it: keys, types, ranges, missing values."""
        label = " ".join(distinct or [o for o in filter_overrides(overrides) if _key(o) not in VOLATILE])
        name = "" if alone else f"job #{number} ({label})"
        saved = HydraConfig.instance().cfg
        try:
            cfg = self._load(overrides)
            output_dir = _place(cfg, number)
            task = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
            return Composed(cfg, task, _job(task, cfg.hydra.overrides.task, name, label), output_dir)
        except (ConfigError, *HYDRA_ERRORS) as error:
            explained = error if isinstance(error, ConfigError) else explain(error)
            raise name_error(explained, name) from error
        finally:
            HydraConfig.instance().cfg = saved

    def _load(self, overrides: Sequence[str]) -> DictConfig:
        parsed = self._parser.parse_overrides(list(overrides))
        structural = tuple(str(o.input_line) for o in parsed if self._is_structural(o))
        if structural not in self._bases:
            self._bases[structural] = self._loader.load_sweep_config(self._config, list(structural))
        cfg = copy.deepcopy(self._bases[structural])
        with read_write(cfg.hydra), open_dict(cfg.hydra):
            cfg.hydra.overrides.task = [o.input_line for o in parsed if not o.is_hydra_override()]
        ConfigLoaderImpl._apply_overrides_to_config([o for o in parsed if not self._is_structural(o)], cfg)
        return cfg

    def _is_structural(self, override: Override) -> bool:
        """Whether it changes which files are composed, so that it cannot be applied afterwards."""
        if override.is_hydra_override() or override.is_delete() or override.package is not None:
            return True
        key = override.key_or_group
        if key not in self._groups:
            self._groups[key] = bool(self._loader.get_group_options(key))
        return self._groups[key]


def save(composed: Composed) -> None:
    """Write `.hydra/*.yaml` into the job's output folder, as Hydra's own launchers do. Raises ConfigError."""
    subdir = composed.cfg.hydra.output_subdir
    if subdir is None:
        return
    folder = composed.output_dir / subdir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "config.yaml", composed.task)
        _write(folder / "hydra.yaml", composed.hydra)
        _write(folder / "overrides.yaml", composed.cfg.hydra.overrides.task)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror}", "Set hydra.sweep.dir to a folder.") from error


def _write(path: Path, cfg: Container) -> None:
    """As Hydra's launchers write it, but by libyaml where it is there: a sweep may have thousands of them."""
    plain = OmegaConf.to_container(cfg, resolve=False, enum_to_str=True)
    path.write_text(yaml.dump(plain, Dumper=DUMPER, allow_unicode=True, sort_keys=False), encoding="utf-8")


def _key(override: str) -> str:
    return override.partition("=")[0]


def _place(cfg: DictConfig, number: int) -> Path:
    """Give the job its number and output folder, which interpolations may use."""
    HydraConfig.instance().cfg = cast(HydraConf, cfg)  # set_config() would copy it, twice for each job
    with open_dict(cfg):
        cfg.hydra.job.id, cfg.hydra.job.num = str(number), number
    output_dir = os.path.abspath(os.path.join(str(cfg.hydra.sweep.dir), str(cfg.hydra.sweep.subdir)))
    with read_write(cfg.hydra.runtime), open_dict(cfg.hydra.runtime):
        cfg.hydra.runtime.output_dir = output_dir
    return Path(output_dir)


def _job(task: DictConfig, overrides: Sequence[str], name: str, label: str) -> SweepJob:
    plain = cast(dict[str, Any], OmegaConf.to_container(task, resolve=True, throw_on_missing=True))
    refuse_unknown(key for key, _ in leaves(plain))
    typed = copy.deepcopy(_TYPED)  # Hydra's root node has no type
    typed.merge_with(task)
    conf = cast(LeverConf, OmegaConf.to_object(typed))  # runs the range checks
    return SweepJob(name=name, conf=conf, config=plain, overrides=tuple(overrides), label=label)
