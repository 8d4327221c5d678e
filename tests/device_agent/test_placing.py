"""engine.placement through whole jobs: the same text wherever it is computed, and a result that says where that was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from device_agent.kernels.backends import list_backends
from device_agent.placing import DRAFTER, TARGET, Places, as_placed
from device_agent.protocol import (
    PROTOCOL_VERSION,
    BackendCosts,
    CostCalibration,
    CostTable,
    DraftingSpec,
    EngineSpec,
    JobSpec,
    PromptSpec,
    StorageSpec,
)
from tests.fakes.agent_jobs import ran
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

PROMPTS = tuple(PromptSpec(str(i), (5 + i, 9, 30, 77)) for i in range(2))
ROLES = (*TARGET, *DRAFTER)
STREAMED = StorageSpec("flash", chunk_kib=16, ring_slots=2)
STRATEGIES = {
    "plain": EngineSpec(),
    "chain": EngineSpec("chain", 4),
    "static_tree": EngineSpec("static_tree", draft_widths=(3, 2, 1), drafting=DraftingSpec(trim_vocabulary=200)),
    "lever": EngineSpec("lever", drafting=DraftingSpec(trim_vocabulary=200)),
}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> JobSpec:
    packs = tmp_path_factory.mktemp("packs")
    target, draft = (write_pack(packs, TinyModel(n_layers=3, noise=noise)).name for noise in (0.0, 0.1))
    return JobSpec(PROTOCOL_VERSION, "a", "t", target, draft, EngineSpec(), PROMPTS, 24, (), packs_dir=str(packs))


def placed(job: JobSpec, engine: EngineSpec, where: str, storage: StorageSpec) -> JobSpec:
    engine = replace(engine, placement=where, storage=storage, threads=1, n_ctx=128, repack=False)
    return replace(job, engine=engine, draft_pack=None if engine.strategy == "autoregressive" else job.draft_pack)


@pytest.mark.parametrize("storage", [StorageSpec("resident"), STREAMED], ids=["resident", "flash"])
@pytest.mark.parametrize("engine", STRATEGIES.values(), ids=list(STRATEGIES))
def test_the_text_is_the_same_wherever_it_is_computed(
    job: JobSpec, engine: EngineSpec, storage: StorageSpec, tmp_path: Path
) -> None:
    """To the token: the virtual accelerator's kernels are the CPU's."""
    found = {where: ran(placed(job, engine, where, storage), tmp_path) for where in ("cpu", "npu", "auto")}
    texts = {where: [request.output_ids for request in result.requests] for where, result in found.items()}
    assert texts["npu"] == texts["auto"] == texts["cpu"]
    for result in found.values():
        assert result.tags["exactness"] == "exact 48/48, ties 0"


def test_a_result_says_where_it_was_computed(job: JobSpec, tmp_path: Path) -> None:
    """And claims no speed that a modelled device would have had."""
    cpu, npu = (ran(placed(job, STRATEGIES["chain"], w, StorageSpec("resident")), tmp_path) for w in ("cpu", "npu"))
    assert (cpu.tags["accelerator"], npu.tags["accelerator"]) == ("none", "virtual")
    assert npu.tags["simulated"] == "virtual-accelerator"
    assert "placement" not in cpu.plan
    assert npu.plan["placement"] == dict.fromkeys(ROLES, "virtual_npu") | {"sampling": "CPU"}
    void = {key for key in npu.tags if key.startswith("void.")}
    assert {"void.tpot_s", "void.ttft_s", "void.tokens_per_s"} <= void
    assert not any(key.startswith("void.") for key in cpu.tags)


def table(seconds: float) -> CostTable:
    return CostTable(((1, seconds), (16, 2 * seconds)))


def test_auto_follows_a_calibration(job: JobSpec, tmp_path: Path) -> None:
    """One that says drafting is cheap on the accelerator and verifying is not."""
    cheap_there = {role: table(0.01 if role in DRAFTER else 0.5) for role in ROLES}
    offers = (
        BackendCosts("CPU", tuple((role, table(0.1)) for role in ROLES)),
        BackendCosts("virtual_npu", tuple(cheap_there.items())),
    )
    spec = placed(job, STRATEGIES["lever"], "auto", StorageSpec("resident"))
    measured = ran(replace(spec, kind="costs"), tmp_path).costs
    assert measured is not None
    assert [offer.backend for offer in measured.backends] == ["CPU", "virtual_npu"]
    assert {role for offer in measured.backends for role, _ in offer.costs} == set(ROLES)
    result = ran(replace(spec, costs=replace(measured, key="c1", backends=offers)), tmp_path)
    places = result.plan["placement"]
    assert [places[role] for role in ROLES] == ["CPU", "CPU", "virtual_npu", "virtual_npu"]
    assert result.plan["placement_by"] == "auto: calibration c1"


def test_costs_of_a_role_are_those_where_it_is_placed() -> None:
    offers = tuple(
        BackendCosts(b.name, tuple((role, table(i + 0.1 * j)) for j, role in enumerate(ROLES, 1)))
        for i, b in enumerate(list_backends(), 1)
    )
    cpu, npu = list_backends()
    costs = CostCalibration("", "", "", 1, "", "", table(9), table(9), table(9), table(9), backends=offers)
    found = as_placed(costs, Places({TARGET[0]: npu, TARGET[1]: cpu, DRAFTER[0]: npu}, "auto"))
    assert (found.verify, found.project, found.draft) == (table(2.1), table(1.2), table(2.3))
    assert found.draft_project == table(9)


def test_costs_of_another_placement_are_refused(job: JobSpec, tmp_path: Path) -> None:
    spec = placed(job, STRATEGIES["lever"], "cpu", StorageSpec("resident"))
    costs: CostCalibration | None = ran(replace(spec, kind="costs"), tmp_path).costs
    assert costs is not None
    failed = ran(replace(placed(job, STRATEGIES["lever"], "npu", StorageSpec("resident")), costs=costs), tmp_path)
    assert failed.error is not None
    assert "is for placement cpu, and this job has npu; calibrate again" in failed.error.message


@pytest.mark.parametrize(
    ("where", "storage", "said"),
    [("gpu", StorageSpec("resident"), "'gpu' is not one of cpu, npu, auto"), ("npu", StorageSpec("mmap"), "mmap")],
)
def test_what_cannot_be_placed_is_refused(
    job: JobSpec, where: str, storage: StorageSpec, said: str, tmp_path: Path
) -> None:
    failed = ran(placed(job, STRATEGIES["plain"], where, storage), tmp_path)
    assert failed.error is not None
    assert failed.error.kind == "bad_spec"
    assert said in failed.error.message
