"""Calibrating jobs on tiny models through the agent's own entry, and what becomes of calibrations that do not fit."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from device_agent.protocol import (
    ANYWHERE,
    ENGINE_VERSION,
    PROTOCOL_VERSION,
    CoresSpec,
    CostCalibration,
    CostTable,
    DraftingSpec,
    EdgeCalibration,
    EngineSpec,
    JobSpec,
    PromptSpec,
    StorageSpec,
)
from tests.fakes.agent_jobs import ran
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

PROMPTS = tuple(PromptSpec(str(i), (5 + i, 9, 30, 77)) for i in range(6))
TABLE = CostTable(((1, 0.001), (16, 0.01)))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> JobSpec:
    packs = tmp_path_factory.mktemp("packs")
    target, draft = (write_pack(packs, TinyModel(n_layers=3, noise=noise)).name for noise in (0.0, 0.1))
    engine = EngineSpec("chain", 4, storage=StorageSpec("resident"), threads=1, n_ctx=128)
    return JobSpec(PROTOCOL_VERSION, "a", "t", target, draft, engine, PROMPTS, 24, (), packs_dir=str(packs))


def costs(job: JobSpec, **changes: Any) -> CostCalibration:
    assert job.draft_pack
    made = CostCalibration(
        ENGINE_VERSION, job.target_pack, job.draft_pack, 1, "resident", "direct", TABLE, TABLE, TABLE, TABLE, key="c1"
    )
    return replace(made, **changes)


def lever(job: JobSpec, **changes: Any) -> JobSpec:
    return replace(job, engine=replace(job.engine, strategy="lever", draft_k=0, **changes))


def test_edges_are_those_of_the_emitted_text(job: JobSpec, tmp_path: Path) -> None:
    result = ran(replace(job, kind="edges"), tmp_path)
    assert result.ok, result.error
    assert len(result.edges) == 6 * 23  # each output token but the first of each request
    assert {len(edge.features) for edge in result.edges} == {6}
    first_choice = sum(edge.chosen == 0 for edge in result.edges) / len(result.edges)
    assert 0.5 < first_choice < 1  # this draft agrees with its target most of the time, not always
    rounds = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    depths = [round(float(edge.features[0][3]), 3) for edge in result.edges]
    assert depths.count(0.693) == sum(trace["request"] != "warm-up" for trace in rounds)  # each round has one depth 1


def test_edges_stop_after_so_many_rounds(job: JobSpec, tmp_path: Path) -> None:
    result = ran(replace(job, kind="edges", max_rounds=1), tmp_path)
    assert {edge.request for edge in result.edges} == {"0"}


def test_a_draft_that_is_the_target_is_always_right(job: JobSpec, tmp_path: Path) -> None:
    result = ran(replace(job, kind="edges", draft_pack=job.target_pack), tmp_path)
    assert {edge.chosen for edge in result.edges} == {0}


def test_costs_are_measured_and_then_used(job: JobSpec, tmp_path: Path) -> None:
    flash = replace(job, engine=replace(job.engine, storage=StorageSpec("flash", flash_bandwidth_mb_s=50.0)))
    result = ran(replace(flash, kind="costs", prompts=()), tmp_path / "costs")
    assert result.ok, result.error
    found = result.costs
    assert found is not None
    assert (found.threads, found.storage_mode, found.engine_version) == (1, "flash", ENGINE_VERSION)
    assert [tokens for tokens, _ in found.verify.seconds] == [1, 2, 4, 8, 16, 32]
    assert all(seconds > 0 for table in (found.draft, found.project) for _, seconds in table.seconds)
    assert len(found.bandwidth_mb_s) == 12
    assert max(mb_s for *_, mb_s in found.bandwidth_mb_s) < 55  # the cap holds while calibrating, too
    known = replace(found, key="c1", verify=CostTable(((1, 5.0), (8, 7.0))))
    used = ran(replace(lever(flash), costs=known), tmp_path / "used")
    assert (used.tags["costs"], used.tags["pipeline_model"]) == ("c1", "calibrated")
    assert used.metrics["pipeline_efficiency"] > 5  # rounds of milliseconds against verification of seconds
    assert used.plan["pass_costs"]["key"] == "c1"
    assert used.plan["stream"]["mb_s"] == 50.0
    assert set(used.plan["verify_s_by_tokens"]) == {"1", "8"}


def test_without_calibrations_the_agent_measures_and_says_so(job: JobSpec, tmp_path: Path) -> None:
    result = ran(lever(job), tmp_path)
    assert (result.tags["calibration"], result.tags["costs"]) == ("none", "measured")


def test_another_way_of_reading_is_measured_again(job: JobSpec, tmp_path: Path) -> None:
    result = ran(replace(lever(job), costs=costs(job, io_mode="underwater")), tmp_path)
    assert result.ok, result.error
    assert result.tags["costs"].startswith("measured: calibration c1 is for underwater reading")
    assert len(result.plan["verify_s_by_tokens"]) == 6


def test_a_budget_changed_after_calibration_is_planned_anew(job: JobSpec, tmp_path: Path) -> None:
    """Costs are of passes, not of budgets: text and plan are right under any."""
    storage = StorageSpec("flash", pinning=True, prefetch=True)
    known = costs(job, storage_mode="flash")
    texts, pinned = [], []
    for budget in (1000.0, 120.0):
        spec = replace(lever(job, storage=storage, dram_budget_mb=budget), costs=known)
        result = ran(spec, tmp_path / f"{budget:.0f}")
        assert result.ok, result.error
        texts.append([request.output_ids for request in result.requests])
        pinned.append(result.plan["total_mb"])
        assert result.plan["total_mb"] <= budget
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"target_pack": "0" * 64}, "target pack 0000"),
        ({"draft_pack": "1" * 64}, "draft pack 1111"),
        ({"engine_version": "0.0.1"}, "engine 0.0.1"),
        ({"threads": 7}, "threads 7"),
        ({"storage_mode": "mmap"}, "storage mode mmap"),
    ],
)
def test_costs_of_something_else_are_refused(job: JobSpec, tmp_path: Path, change: dict[str, Any], named: str) -> None:
    result = ran(replace(lever(job), costs=costs(job, **change)), tmp_path)
    assert result.error is not None
    assert result.error.kind == "bad_spec"
    assert named in result.error.message
    assert "c1" in result.error.message


@pytest.mark.parametrize(
    ("change", "named"),
    [({"target_pack": "0" * 64}, "target pack"), ({"engine_version": "0.0.1"}, "engine 0.0.1")],
)
def test_acceptance_of_something_else_is_refused(
    job: JobSpec, tmp_path: Path, change: dict[str, str], named: str
) -> None:
    edges = EdgeCalibration("e1", **change)  # type: ignore[arg-type]
    result = ran(lever(job, drafting=DraftingSpec(edges=edges)), tmp_path)
    assert result.error is not None
    assert result.error.kind == "bad_spec"
    assert named in result.error.message


def test_a_pack_changed_underneath_is_named(job: JobSpec, tmp_path: Path) -> None:
    packs = tmp_path / "packs"
    target = write_pack(packs, TinyModel(n_layers=3))
    manifest = target / "model.json"
    manifest.write_text(manifest.read_text().replace("tiny llama", "tina llama"))
    result = ran(replace(job, packs_dir=str(packs), target_pack=target.name, draft_pack=None), tmp_path / "job")
    assert result.error is not None
    assert result.error.kind == "pack_corrupt"
    assert f"pack {target.name[:12]} was changed" in result.error.message


def test_a_draft_longer_than_the_context_is_cut(job: JobSpec, tmp_path: Path) -> None:
    long = replace(job, engine=replace(job.engine, draft_k=500), max_new_tokens=400)
    plain = replace(long, engine=replace(job.engine, strategy="autoregressive", draft_k=0), draft_pack=None)
    found, expected = (ran(spec, tmp_path / spec.engine.strategy).requests for spec in (long, plain))
    assert [request.output_ids for request in found] == [request.output_ids for request in expected]
    assert {request.stop_reason for request in found} == {"kv_full"}


@pytest.mark.parametrize(
    ("change", "named"), [({"kind": "guess"}, "guess"), ({"kind": "edges", "draft_pack": None}, "draft model")]
)
def test_bad_calibrating_jobs_are_refused(job: JobSpec, tmp_path: Path, change: dict[str, Any], named: str) -> None:
    plain = replace(job, engine=replace(job.engine, strategy="autoregressive"))
    result = ran(replace(plain, **change), tmp_path)
    assert result.error is not None
    assert result.error.kind == "bad_spec"
    assert named in result.error.message


AUTO = CoresSpec(auto=True)


def test_cores_are_tried_and_the_best_are_used(job: JobSpec, tmp_path: Path) -> None:
    flash = replace(job, engine=replace(job.engine, storage=StorageSpec("flash"), threads=0, cores=AUTO))
    result = ran(replace(flash, kind="costs", prompts=()), tmp_path / "costs")
    assert result.ok, result.error
    found = result.costs
    assert found is not None
    assert [trial for trial in found.core_trials if (trial.threads, trial.cores) == (found.threads, found.cores)]
    assert all(0 < trial.compute_s <= trial.round_s for trial in found.core_trials)
    used = ran(replace(lever(flash), costs=replace(found, key="c1")), tmp_path / "used")
    assert used.ok, used.error
    assert used.plan["threads"] == found.threads
    assert used.tags["cores"].endswith("(calibration c1)")


def test_without_a_calibration_the_clusters_decide(job: JobSpec, tmp_path: Path) -> None:
    result = ran(replace(job, engine=replace(job.engine, threads=0, cores=AUTO)), tmp_path)
    assert result.tags["cores"].endswith("(clusters)")
    assert result.plan["threads"] >= 1


def test_texts_are_the_same_on_any_cores(job: JobSpec, tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    storage = StorageSpec("flash", prefetch=True)
    free, bound = (
        ran(replace(job, engine=replace(job.engine, storage=storage, cores=cores)), tmp_path)
        for cores in (ANYWHERE, CoresSpec(False, (core,), (core,)))
    )
    assert "cores" not in free.tags
    assert bound.tags["cores"] == f"1 threads on {core}, reader on {core} (engine.cores)"
    assert [r.output_ids for r in bound.requests] == [r.output_ids for r in free.requests]


@pytest.mark.parametrize("cores", [CoresSpec(False, (900,)), CoresSpec(False, (), (900,))])
def test_cores_that_are_not_there_are_named(job: JobSpec, tmp_path: Path, cores: CoresSpec) -> None:
    result = ran(replace(job, engine=replace(job.engine, cores=cores)), tmp_path)
    assert result.error is not None
    assert result.error.kind == "bad_spec"
    assert "no core 900 can be used here" in result.error.message


def test_costs_for_other_cores_are_refused(job: JobSpec, tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    result = ran(replace(lever(job), costs=costs(job, cores=CoresSpec(False, (core,)))), tmp_path)
    assert result.error is not None
    assert f"is for cores {core}, reader on any, and this job has any, reader on any" in result.error.message
