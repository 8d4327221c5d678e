"""The device path on a real second ggml device: memory that the host cannot reach, results that round otherwise."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from device_agent.job_folder import read_result
from device_agent.protocol import PROTOCOL_VERSION, EngineSpec, JobSpec, PromptSpec, StorageSpec, to_json
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel
from tests.fakes.vulkan import ran, vulkan
from tests.fakes.vulkan_placements import PROMPT, TOKENS, combinations

__all__ = ["vulkan"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]  # the first test builds the device and its shaders


@pytest.fixture(scope="module")
def placed(vulkan: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What came out of each combination."""
    folder = tmp_path_factory.mktemp("placed")
    done = ran([sys.executable, "-m", "tests.fakes.vulkan_placements", folder], vulkan)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {tuple(one["placement"]): one for one in found}


@pytest.mark.parametrize("places", combinations(), ids=lambda places: "-".join(map(str, places)))
def test_every_placement_gives_the_text(placed: dict[Any, dict[str, Any]], places: tuple[str, str, str, int]) -> None:
    """Along its own text each placement agrees with itself; with the CPU's text it does, or parts at a stated tie."""
    found, on_cpu = placed[places], placed["CPU", "CPU", "CPU", 0]
    assert found["exact"] + found["ties"] == TOKENS
    assert found["diverged"] == 0
    if found["parted"] is None:
        assert found["output_ids"] == on_cpu["output_ids"]
    else:
        assert found["gap"] <= 2 * found["noise"], "parted where the best two logits were further apart than rounding"
    assert found["rounds"] < TOKENS, "nothing was drafted well"


@pytest.mark.parametrize("places", combinations(), ids=lambda places: "-".join(map(str, places)))
def test_what_is_placed_there_is_uploaded(placed: dict[Any, dict[str, Any]], places: tuple[str, str, str, int]) -> None:
    draft, verify, project, ring = places
    target, drafter = placed[places]["uploaded"]
    assert (drafter > 0) == (draft == "Vulkan0")
    assert (target > 0) == ("Vulkan0" in (verify, project))
    if verify == "Vulkan0" and ring:
        assert target > 10 * placed[draft, verify, project, 0]["uploaded"][0], "streamed layers go there in every pass"
    assert (placed[places]["noise"] == 0) == (verify == project == "CPU"), "another device rounds otherwise"


def test_a_job_runs_there(vulkan: dict[str, str], tmp_path: Path) -> None:
    """Through the agent's own entry, with layers from flash; and again placed by measured costs."""
    packs = tmp_path / "packs"
    target, draft = (
        write_pack(packs, TinyModel("qwen2", n_layers=3, tied=False, noise=noise)).name for noise in (0.0, 0.05)
    )
    storage = StorageSpec("flash", chunk_kib=16, ring_slots=2)
    engine = EngineSpec("chain", 3, storage=storage, placement="npu", threads=1, n_ctx=128)
    spec = JobSpec(PROTOCOL_VERSION, "a", "t", target, draft, engine, (PromptSpec("p", PROMPT),), 12, (), str(packs))
    results = {}
    for placement in ("npu", "auto"):
        folder = tmp_path / placement
        folder.mkdir()
        job = replace(spec, engine=replace(engine, placement=placement))
        (folder / "spec.json").write_text(json.dumps(to_json(job)))
        done = ran([sys.executable, "-m", "device_agent", "run", folder], vulkan)
        assert done.returncode == 0, done.stdout + done.stderr
        results[placement] = read_result(folder)
    npu, auto = results["npu"], results["auto"]
    assert npu
    assert auto
    assert npu.tags["accelerator"].startswith("Vulkan0 (llvmpipe")
    assert npu.tags["exactness"].startswith("exact")
    assert {name for role, name in npu.plan["placement"].items() if role != "sampling"} == {"Vulkan0"}
    assert auto.plan["placement_by"] == "auto: measured"
    assert auto.tags["exactness"].startswith("exact")
