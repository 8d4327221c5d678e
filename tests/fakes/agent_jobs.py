"""Job folders for the agent, over one tiny pair."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from device_agent.job_folder import read_result
from device_agent.protocol import (
    PROTOCOL_VERSION,
    EngineSpec,
    JobResult,
    JobSpec,
    PromptSpec,
    StorageSpec,
    from_json,
    to_json,
)
from device_agent.run import run
from orchestrator.models.store import ModelStore, Pair
from tests.fakes.tiny_pair import tiny_pair

AGENT = [sys.executable, "-m", "device_agent"]
CHAIN = EngineSpec(
    "chain", 3, storage=StorageSpec("flash", flash_bandwidth_mb_s=50, chunk_kib=16), threads=1, n_ctx=256
)
PLAIN = EngineSpec(threads=1, n_ctx=256, storage=StorageSpec("resident"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelStore, Pair]:
    return tiny_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def job(tiny: tuple[ModelStore, Pair], tmp_path: Path) -> Callable[..., Path]:
    """Writes a job folder: job(engine, **changes of the spec)."""
    store, pair = tiny

    def write(engine: EngineSpec = PLAIN, **changes: Any) -> Path:
        spec = JobSpec(
            version=PROTOCOL_VERSION,
            attempt_id="a1",
            trial_id="t1",
            target_pack=pair.target_pack,
            draft_pack=pair.draft_pack if engine.strategy == "chain" else None,
            engine=engine,
            prompts=(PromptSpec("p1", (1, 50, 60, 70)), PromptSpec("p2", (1, 99))),
            max_new_tokens=12,
            stop_token_ids=(),
            packs_dir=str(store.packs),
        )
        folder = tmp_path / "job"
        folder.mkdir(exist_ok=True)
        (folder / "spec.json").write_text(json.dumps(to_json(replace(spec, **changes))))
        return folder

    return write


def ran(spec: JobSpec, folder: Path) -> JobResult:
    """Run `spec` in this process, in `folder`, once more if it has run there."""
    folder.mkdir(exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(to_json(spec)))
    (folder / "result.json").unlink(missing_ok=True)
    run(folder)
    result = read_result(folder)
    assert result is not None
    return result


def result(folder: Path) -> JobResult:
    return from_json(JobResult, json.loads((folder / "result.json").read_text()))


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
