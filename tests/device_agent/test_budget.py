"""The DRAM budget under the kernel's own limit, and bytes as the kernel counts them, on a real disk."""

import json
import os
import resource
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from device_agent.dram_plan import MB, layer_sizes, plan_dram
from device_agent.model.pack import open_pack
from device_agent.model.weights import open_streamed
from device_agent.protocol import (
    PROTOCOL_VERSION,
    DraftingSpec,
    EngineSpec,
    JobResult,
    JobSpec,
    PromptSpec,
    StorageSpec,
    from_json,
    to_json,
)
from device_agent.telemetry.disk import disk_read_bytes
from tests.fakes import limited_agent
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

TARGET = TinyModel("qwen2", "F32", n_layers=8, d_model=512, d_ff=2048, tied=False)  # layers of 16 MB
DRAFT = TinyModel("qwen2", n_layers=2)
STACK = 1 << 20  # of a thread: it counts as data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packs")


@pytest.fixture(scope="module")
def target(folder: Path) -> Path:
    return write_pack(folder, TARGET)


@pytest.fixture(scope="module")
def draft(folder: Path) -> Path:
    return write_pack(folder, DRAFT)


def least_mb(target: Path, draft: Path, engine: EngineSpec) -> float:
    two_slots = replace(engine, storage=StorageSpec(ring_slots=2))
    return plan_dram(open_pack(target).manifest, open_pack(draft).manifest, two_slots).total / MB


def run_limited(job: Path, target: Path, draft: Path, engine: EngineSpec, limit_mb: float) -> JobResult:
    prompts = (PromptSpec("a", tuple(range(10, 40))), PromptSpec("b", (7, 8, 9)))
    spec = JobSpec(
        PROTOCOL_VERSION, "a", "t", target.name, draft.name, engine, prompts, 4, (), packs_dir=str(target.parent)
    )
    (job / "spec.json").write_text(json.dumps(to_json(spec)))
    command = [sys.executable, limited_agent.__file__, str(job), str(limit_mb)]
    paths = os.pathsep.join([str(Path(limited_agent.__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    before = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, before[1]))
    try:
        subprocess.run(command, env=env, timeout=120, check=False, capture_output=True)
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, before)
    return from_json(JobResult, json.loads((job / "result.json").read_text()))


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("pinning", [False, True])
def test_a_job_keeps_to_its_budget_under_a_limit(
    tmp_path: Path, target: Path, draft: Path, prefetch: bool, pinning: bool
) -> None:
    engine = EngineSpec("chain", 3, n_ctx=256, threads=1)
    sizes = layer_sizes(open_pack(target).manifest)
    budget = least_mb(target, draft, engine) + 0.3 * sum(sizes) / MB
    storage = StorageSpec(flash_bandwidth_mb_s=2000, prefetch=prefetch, pinning=pinning)
    result = run_limited(tmp_path, target, draft, replace(engine, storage=storage, dram_budget_mb=budget), budget)
    assert result.ok, result.error
    assert result.plan["total_mb"] <= budget
    assert result.plan["pinned_layers"] == (2 if pinning else 0)
    assert result.metrics["peak_rss_mb"] <= 1.1 * budget
    assert "void.peak_rss_mb" not in result.tags
    assert result.tags["exactness"].startswith("exact 8/8")
    assert 0 < result.metrics["pipeline_efficiency"] <= 1.05


def test_a_trimmed_draft_keeps_its_whole_output_projection_out_of_dram(
    tmp_path: Path, folder: Path, target: Path
) -> None:
    wordy = write_pack(folder, TinyModel("qwen2", "F32", n_layers=2, d_model=256, d_ff=256, padding=60_000))
    whole = EngineSpec("chain", 3, n_ctx=256, threads=1)
    trimmed = replace(whole, drafting=DraftingSpec(trim_vocabulary=256))
    saved_mb = least_mb(target, wordy, whole) - least_mb(target, wordy, trimmed)
    assert saved_mb > 60  # of a matrix of 62 MB
    budget = least_mb(target, wordy, trimmed)
    storage = StorageSpec(flash_bandwidth_mb_s=2000)
    result = run_limited(tmp_path, target, wordy, replace(trimmed, storage=storage, dram_budget_mb=budget), budget)
    assert result.ok, result.error
    assert result.plan["draft_output_mb"] == 0.3
    assert result.metrics["peak_rss_mb"] <= 1.1 * budget


def test_the_limit_is_real(tmp_path: Path, target: Path, draft: Path) -> None:
    """The same job with all layers in DRAM does not fit under it."""
    engine = EngineSpec("chain", 3, n_ctx=256, threads=1)
    resident = replace(engine, storage=StorageSpec("resident"))
    result = run_limited(tmp_path, target, draft, resident, least_mb(target, draft, engine))
    assert result.error is not None
    assert result.error.kind == "out_of_memory"


@pytest.mark.parametrize("prefetch", [False, True])
def test_the_kernel_counts_the_bytes_that_passes_consumed(target: Path, prefetch: bool) -> None:
    """Five passes under O_DIRECT; of reading ahead only what the ring holds is not consumed yet."""
    with closing(open_streamed(target, 2, 1024, None, pinned=(0, 4), prefetch=prefetch)) as weights:
        before = disk_read_bytes()
        for _ in range(5):
            weights.begin_pass()
            for index in range(TARGET.n_layers):
                with weights.layer(index):
                    pass
        consumed = weights.read_bytes
        if weights.io_mode != "direct":
            pytest.skip("no O_DIRECT here")
    sizes = layer_sizes(weights.manifest)
    ahead = disk_read_bytes() - before - consumed
    assert consumed == 5 * sum(size for index, size in enumerate(sizes) if index not in (0, 4))
    assert -0.01 * consumed <= ahead <= (2 * max(sizes) if prefetch else 0) + 0.05 * consumed
