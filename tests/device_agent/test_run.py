"""The agent as it runs on a phone: a process, a job folder, files."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from device_agent import run as run_module
from device_agent.protocol import (
    PROTOCOL_VERSION,
    EnergySpec,
    EngineSpec,
    JobSpec,
    PromptSpec,
    StorageSpec,
    to_json,
)
from device_agent.run import run
from orchestrator.models.store import ModelStore, Pair
from tests.fakes.agent_jobs import AGENT, CHAIN, PLAIN, job, lines, result, tiny

__all__ = ["job", "tiny"]


def test_a_process_turns_a_spec_into_a_result(job: Callable[..., Path]) -> None:
    energy = EnergySpec("model", idle_w=1.0, cpu_w_per_core=2.0, flash_j_per_gb=1.0)
    folder = job(CHAIN, energy=energy, flash_profile_mb_s=40.0)
    done = subprocess.run([*AGENT, "run", str(folder)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = result(folder)
    assert (found.ok, found.attempt_id, found.trial_id) == (True, "a1", "t1")
    assert [len(request.output_ids) for request in found.requests] == [12, 12]
    rounds = lines(folder / "rounds.jsonl")
    assert sum(r["read_bytes"] for r in rounds) == found.metrics["flash_read_bytes"] > 0
    assert len(rounds) == found.metrics["rounds"]
    assert found.metrics["energy_gross_j_per_token"] > found.metrics["energy_j_per_token"] > 0
    assert 0 < found.metrics["flash_utilisation"] <= 1.05
    assert found.tags["exactness"].startswith("exact")
    assert (found.tags["flash_cap_mb_s"], found.tags["energy_method"]) == ("40", "model")
    assert found.plan["ring_slots"] == 3
    kinds = [event["kind"] for event in lines(folder / "events.jsonl")]
    assert [k for k in kinds if k != "progress"] == [
        "started",
        "loaded",
        "warmed_up",
        "request_done",
        "request_done",
        "checking",
        "done",
    ]


def test_storage_and_drafting_change_no_token(job: Callable[..., Path]) -> None:
    outputs = []
    for engine in (PLAIN, CHAIN, replace(PLAIN, storage=StorageSpec("flash"))):
        folder = job(engine)
        assert run(folder) == 0
        outputs.append([request.output_ids for request in result(folder).requests])
        (folder / "result.json").unlink()
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_job_that_has_a_result_is_not_run_again(job: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = job()
    assert run(folder) == 0
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert run(folder) == 0
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    failed = replace(result(folder), ok=False)
    (folder / "result.json").write_text(json.dumps(to_json(failed)))
    assert run(folder) == 1


def test_a_second_start_writes_no_round_twice(job: Callable[..., Path]) -> None:
    folder = job()
    assert run(folder) == 0
    rounds = (folder / "rounds.jsonl").read_text().count("\n")
    (folder / "result.json").unlink()
    assert run(folder) == 0
    assert (folder / "rounds.jsonl").read_text().count("\n") == rounds


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"target_pack": "f" * 64}, "pack_corrupt", r"model\.json: no such file"),
        ({"version": 99}, "bad_spec", "protocol version 99"),
        ({"prompts": (PromptSpec("p", tuple(range(300))),)}, "bad_spec", "300 tokens"),
        ({"prompts": (PromptSpec("p", (9999,)),)}, "bad_spec", "token id 9999"),
        ({"engine": replace(PLAIN, dram_budget_mb=5)}, "budget_too_small", r"\d+ MB would do"),
        ({"engine": replace(PLAIN, strategy="magic")}, "bad_spec", "strategy 'magic' is not known"),
    ],
)
def test_failures_are_results_with_a_kind(
    job: Callable[..., Path], changes: dict[str, Any], kind: str, said: str
) -> None:
    folder = job(**{"engine": PLAIN, **changes})
    assert run(folder) == 1
    error = result(folder).error
    assert error is not None
    assert error.kind == kind
    assert re.search(said, error.message)
    assert lines(folder / "events.jsonl")[-1]["kind"] == "failed"


def test_a_spec_that_is_no_spec(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"version": 1}')
    assert run(tmp_path) == 1
    error = result(tmp_path).error
    assert error is not None
    assert error.kind == "bad_spec"
    assert "missing field 'attempt_id'" in error.message


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (OSError(28, "No space left on device"), "disk_full"),
        (OSError(27, "File too large"), "disk_full"),
        (OSError(5, "Input/output error"), "io_error"),
        (MemoryError(), "out_of_memory"),
        (RuntimeError("surprise"), "engine_error"),
    ],
)
def test_any_exception_is_a_result(
    job: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, raised: Exception, kind: str
) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(run_module, "run_spec", fail)
    folder = job()
    assert run(folder) == 1
    error = result(folder).error
    assert error is not None
    assert error.kind == kind
    assert "Traceback" in error.detail


def test_weights_that_are_no_numbers_are_named(
    job: Callable[..., Path], tiny: tuple[ModelStore, Pair], tmp_path: Path
) -> None:
    """The pack is as it was made, and was made with NaN where weights should be."""
    store, pair = tiny
    good, packs = store.pack_dir(pair.target_pack), tmp_path / "packs"
    bad = b"\xff" * (good / "layer.2.0.bin").stat().st_size
    old, new = (hashlib.sha256(data).hexdigest() for data in ((good / "layer.2.0.bin").read_bytes(), bad))
    manifest = (good / "model.json").read_text().replace(old, new)
    name = hashlib.sha256(manifest.encode()).hexdigest()
    shutil.copytree(good, packs / name)
    (packs / name / "model.json").write_text(manifest)
    (packs / name / "layer.2.0.bin").write_bytes(bad)
    folder = job(packs_dir=str(packs), target_pack=name)
    assert run(folder) == 1
    error = result(folder).error
    assert error is not None
    assert error.kind == "nan_logits"


def test_probe_says_what_this_machine_has(tmp_path: Path) -> None:
    done = subprocess.run([*AGENT, "probe", str(tmp_path)], capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["memory_mb"] > 100
    assert isinstance(facts["o_direct"], bool)
    assert {"python", "numpy", "ggml", "engine_version"} <= set(facts)


def test_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    names = ["a file.bin", "-b", "missing"]
    for name in names[:2]:
        (tmp_path / name).write_bytes(os.urandom(100_000))
    said = "".join(f"{name}\n" for name in [*names, "", names[0]])
    done = subprocess.run([*AGENT, "sums"], input=said, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == subprocess.check_output(["sha256sum", "--", *names[:2]], text=True, cwd=tmp_path)


def test_sums_leave_what_follows_to_the_next_program(tmp_path: Path) -> None:
    command = f"{shlex.join(AGENT)} sums; cat"
    said = "missing\n\nrest"
    assert subprocess.check_output(command, shell=True, input=said, text=True, cwd=tmp_path) == "rest"


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["run", "/nowhere"]])
def test_bad_usage(arguments: list[str]) -> None:
    done = subprocess.run([*AGENT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: agent run JOB_DIR")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_qwen_pair_stays_within_its_budget(qwen_coder: ModelStore, tmp_path: Path) -> None:
    """The smallest budget that is accepted, with the whole KV cache in use."""
    pair = qwen_coder.pair("qwen-coder")
    engine = EngineSpec("chain", 5, storage=StorageSpec("flash"), dram_budget_mb=1.0, n_ctx=384)
    prompt = PromptSpec("long", tuple(range(1000, 1360)))
    spec = JobSpec(
        version=PROTOCOL_VERSION,
        attempt_id="a",
        trial_id="t",
        target_pack=pair.target_pack,
        draft_pack=pair.draft_pack,
        engine=engine,
        prompts=(prompt,),
        max_new_tokens=16,
        warmup_tokens=0,
        stop_token_ids=(),
        packs_dir=str(qwen_coder.packs),
    )
    (tmp_path / "spec.json").write_text(json.dumps(to_json(spec)))
    subprocess.run([*AGENT, "run", str(tmp_path)], check=False)
    refused = result(tmp_path).error
    assert refused is not None
    enough = float(refused.message.split("too small: ")[1].split()[0])
    (tmp_path / "result.json").unlink()
    spec = replace(spec, engine=replace(engine, dram_budget_mb=enough))
    (tmp_path / "spec.json").write_text(json.dumps(to_json(spec)))
    subprocess.run([*AGENT, "run", str(tmp_path)], check=True)
    found = result(tmp_path)
    assert found.plan["ring_slots"] == 2
    assert 0.7 * enough < found.metrics["peak_rss_mb"] <= 1.1 * enough
