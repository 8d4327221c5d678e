"""Configurations for tests, made as Hydra would make them but without composing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from omegaconf import OmegaConf

from orchestrator.schema import LeverConf
from orchestrator.sweeps.jobs import SweepJob

# Flash and chain, so that every key matters; far from the defaults where that is shorter.
BASE: dict[str, Any] = {
    "pair.name": "small",
    "engine.strategy": "chain",
    "workload.name": "two",
    "workload.prompts": [{"id": "a", "text": "one"}, {"id": "b", "text": "two"}],
}


def job(changes: Mapping[str, Any] | None = None, name: str = "") -> SweepJob:
    """`changes` are dotted keys: job({"engine.drafting.k": 3})."""
    changes = changes or {}
    values = {**BASE, **changes}
    config = OmegaConf.structured(LeverConf)
    for key, value in values.items():
        OmegaConf.update(config, key, value)
    plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    conf = cast(LeverConf, OmegaConf.to_object(config))
    overrides = tuple(f"{key}={value}" for key, value in changes.items())
    return SweepJob(name, conf, plain, overrides, " ".join(overrides))
