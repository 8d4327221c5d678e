"""The real agent on a real virtual phone: a tiny model's pack is pushed, a job runs, its result comes home."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from device_agent.protocol import (
    PROTOCOL_VERSION,
    EngineSpec,
    JobSpec,
    PromptSpec,
    StorageSpec,
    to_json,
)
from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress
from orchestrator.farm.agent_client import run_attempt
from orchestrator.farm.attempt_watch import Limits
from orchestrator.farm.self_test import Shelf
from orchestrator.settings import Settings
from tests.fakes.bench import Bench
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

QUICK = Limits(poll=0.05)


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_pack(tmp_path / "packs", TinyModel())


def order(bench: Bench, pack: Path, attempt_id: str = "real.1", max_new_tokens: int = 8) -> AttemptOrder:
    spec = JobSpec(
        version=PROTOCOL_VERSION,
        attempt_id=attempt_id,
        trial_id="real",
        target_pack=pack.name,
        draft_pack=pack.name,
        engine=EngineSpec("chain", 3, storage=StorageSpec("flash"), n_ctx=512, trace_nodes=True),
        prompts=(PromptSpec("p", (1, 5, 9)),),
        max_new_tokens=max_new_tokens,
        stop_token_ids=(),
    )
    return AttemptOrder(attempt_id, bench.device, to_json(spec), 120)


class Following:
    """Collects progress and cuts the cable at the first event of a kind."""

    def __init__(self, bench: Bench, pack: Path, tmp_path: Path, cut_at: str = "") -> None:
        self.bench, self.pack, self.cut_at = bench, pack, cut_at
        self.settings = Settings(tmp_path / "home", "", "", "here")
        self.progress: list[Progress] = []

    def run(self, job: AttemptOrder) -> AttemptOutcome:
        packs, cancelled = Shelf(self.pack.parent), threading.Event()
        return run_attempt(job, self.bench.connect, packs, self.settings, self._report, cancelled, QUICK)

    def _report(self, progress: Progress) -> None:
        self.progress.append(progress)
        if progress.kind == "agent_event" and progress.data["kind"] == self.cut_at:
            self.cut_at = ""
            self.bench.phone.cut()


def ids(outcome: AttemptOutcome) -> list[Any]:
    assert outcome.result is not None, outcome
    return [request["output_ids"] for request in outcome.result["requests"]]


def test_runs_and_survives_a_cut(bench: Bench, pack: Path, tmp_path: Path) -> None:
    quiet = Following(bench, pack, tmp_path).run(order(bench, pack, "quiet.1"))
    following = Following(bench, pack, tmp_path, cut_at="loaded")
    outcome = following.run(order(bench, pack, max_new_tokens=200))
    assert outcome.connection_losses == 1
    assert ids(outcome)[0][:8] == ids(quiet)[0]
    events = [p.data["kind"] for p in following.progress if p.kind == "agent_event"]
    assert events.count("started") == 1
    assert events[-1] == "done"
    assert len(outcome.rounds_jsonl.splitlines()) == outcome.result["metrics"]["rounds"]  # type: ignore[index]
    nodes = [json.loads(line) for line in gzip.decompress(base64.b64decode(outcome.nodes_packed)).splitlines()]
    accepted = sum(node["accepted"] and node["depth"] > 0 for node in nodes)
    assert accepted == 200 - 1 - len(outcome.rounds_jsonl.splitlines()), "each round emits one token more"
    sizes = [p.data["done_bytes"] for p in following.progress if p.kind == "provisioning"]
    assert len(sizes) == 1, "the pack was there: nothing is pushed again"


def test_a_corrupt_pack_is_named_and_repaired(bench: Bench, pack: Path, tmp_path: Path) -> None:
    following = Following(bench, pack, tmp_path)
    good = following.run(order(bench, pack, "good.1"))
    manifest = bench.file(f"packs/{pack.name}/model.json")
    manifest.write_bytes(b"?" + manifest.read_bytes()[1:])  # the same size: only its content tells
    bad = following.run(order(bench, pack, "bad.1"))
    assert bad.failure_kind == FailureKind.PACK_CORRUPT
    again = following.run(order(bench, pack, "again.1"))
    assert ids(again) == ids(good)


def test_a_pack_that_is_damaged_here_is_named_with_its_remedy(bench: Bench, pack: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "copy" / pack.name
    shutil.copytree(pack, damaged)
    chunk = max(damaged.glob("*.bin"), key=lambda file: file.stat().st_size)
    chunk.write_bytes(b"oops" + chunk.read_bytes()[4:])
    outcome = Following(bench, damaged, tmp_path).run(order(bench, damaged))
    assert outcome.failure_kind == FailureKind.PACK_CORRUPT
    assert f"packs/{pack.name}/{chunk.name} is damaged on this host" in outcome.failure_message
    assert "lever models verify" in outcome.failure_message


def test_a_bad_spec_is_named(bench: Bench, pack: Path, tmp_path: Path) -> None:
    job = order(bench, pack)
    outcome = Following(bench, pack, tmp_path).run(replace(job, job={**job.job, "surprise": 1}))
    assert outcome.failure_kind == FailureKind.BAD_SPEC
    assert "surprise" in outcome.failure_message
