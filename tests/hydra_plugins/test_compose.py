"""A batch composed fast is a batch composed as Hydra does, job by job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import setup_globals
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.lever_farm._compose import Composed, compose_batch
from orchestrator.errors import ConfigError

BATCH = [
    ["pair=smollm2", "engine=chain", "engine.drafting.k=3", "workload.limit=1"],
    ["pair=smollm2", "engine=chain", "engine.drafting.k=5", "workload.limit=1"],
    ["pair=smollm2", "engine=autoregressive", "engine.drafting.k=3", "workload.limit=1"],
    ["pair=smollm2", "engine=autoregressive", "engine.drafting.k=5", "workload.limit=1"],
]


@pytest.fixture
def hydra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hydra]:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    version.setbase("1.3")
    setup_globals()
    yield Hydra.create_main_hydra2("lever-sweep", create_config_search_path("pkg://orchestrator.conf"))
    GlobalHydra.instance().clear()


def master(hydra: Hydra, *overrides: str) -> DictConfig:
    return hydra.compose_config("config", [*overrides, "hydra.mode=MULTIRUN"], RunMode.MULTIRUN)


def compose(hydra: Hydra, batch: list[list[str]], *overrides: str) -> list[Composed]:
    return compose_batch(hydra.config_loader, master(hydra, *overrides), batch, 0)


def test_fast_composing_gives_what_hydra_gives(hydra: Hydra) -> None:
    config = master(hydra)
    for overrides, fast in zip(BATCH, compose_batch(hydra.config_loader, config, BATCH, 0), strict=True):
        slow = hydra.config_loader.load_sweep_config(config, overrides)
        expected = OmegaConf.masked_copy(slow, [key for key in map(str, slow) if key != "hydra"])
        assert OmegaConf.to_container(fast.task, resolve=True) == OmegaConf.to_container(expected, resolve=True)
        assert fast.cfg.hydra.overrides.task == slow.hydra.overrides.task
        assert fast.cfg.hydra.runtime.choices == slow.hydra.runtime.choices


def test_one_composition_for_each_combination_of_groups(hydra: Hydra, monkeypatch: pytest.MonkeyPatch) -> None:
    composed: list[list[str]] = []
    load = hydra.config_loader.load_sweep_config

    def counting(config: DictConfig, overrides: list[str]) -> DictConfig:
        composed.append(overrides)
        return load(config, overrides)

    config = master(hydra)
    monkeypatch.setattr(hydra.config_loader, "load_sweep_config", counting)
    compose_batch(hydra.config_loader, config, BATCH * 3, 0)
    assert composed == [["pair=smollm2", "engine=chain"], ["pair=smollm2", "engine=autoregressive"]]


def test_each_job_has_its_number_folder_and_name(hydra: Hydra, tmp_path: Path) -> None:
    composed = compose(hydra, BATCH, "hydra.sweep.dir=" + str(tmp_path / "out"), "hydra.sweep.subdir=n${hydra:job.num}")
    assert [one.output_dir for one in composed] == [tmp_path / "out" / f"n{i}" for i in range(4)]
    assert [one.cfg.hydra.job.num for one in composed] == [0, 1, 2, 3]
    assert composed[1].job.name == "job #1 (engine=chain engine.drafting.k=5)"
    assert composed[1].job.label == "engine=chain engine.drafting.k=5"
    assert [one.job.conf.engine.drafting.k for one in composed] == [3, 5, 3, 5]


def test_outputs_go_under_lever_home_by_default(hydra: Hydra, tmp_path: Path) -> None:
    (one,) = compose(hydra, [["pair=smollm2"]])
    assert one.output_dir.is_relative_to(tmp_path / "home" / "sweeps")
    assert one.job.name == ""
    assert not (tmp_path / "home").exists()


def test_hydras_state_is_as_before(hydra: Hydra) -> None:
    before = HydraConfig.instance().cfg
    with pytest.raises(ConfigError, match=r"job #1 \(engine.threads=0\)"):
        compose(hydra, [["engine.threads=1"], ["engine.threads=0"]])
    assert HydraConfig.instance().cfg is before
