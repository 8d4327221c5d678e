"""Replaying the trace that a real job of a tiny pair left, as the artifacts of a run."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cell import job
from benchmarks.prompts import PromptSet
from benchmarks.replay import Recording, Replayed, Tree, best, everything, main, only_accepted, read, replay
from device_agent.protocol import EngineSpec, PromptSpec, StorageSpec, to_json
from device_agent.run import run
from orchestrator.tracking.traces import write_nodes, write_rounds
from tests.fakes.tiny_pair import tiny_pair

PROMPTS = PromptSet("set", (PromptSpec("a", (1, 50, 60, 70)), PromptSpec("b", (1, 99))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    store, pair = tiny_pair(folder)
    storage = StorageSpec(flash_bandwidth_mb_s=50, chunk_kib=16, prefetch=True)
    engine = EngineSpec("lever", storage=storage, n_ctx=256, threads=1, trace_nodes=True)
    spec = replace(job(replace(pair, stop_token_ids=()), engine, True, PROMPTS, 24), packs_dir=str(store.packs))
    (folder / "spec.json").write_text(json.dumps(to_json(spec)))
    assert run(folder) == 0
    write_rounds((folder / "rounds.jsonl").read_text(), folder / "rounds.parquet")
    packed = base64.b64encode(gzip.compress((folder / "nodes.jsonl").read_bytes())).decode()
    write_nodes(packed, folder / "nodes.parquet")
    return folder


@pytest.fixture(scope="module")
def recording(folder: Path) -> Recording:
    return read(folder)


def emitted(recording: Recording) -> int:
    return sum(trace.acceptance_length for trace in recording.rounds)


def test_what_was_verified_gives_the_rounds_that_there_were(recording: Recording) -> None:
    found = replay(recording, everything)
    timed = [trace for trace in recording.rounds if trace.request != "warm-up"]
    assert len(timed) == len(recording.rounds) == found.rounds
    assert found.tokens == emitted(recording) == 2 * 23
    assert found.nodes == sum(trace.nodes_verified for trace in recording.rounds)
    assert found.seconds > 0


def test_the_root_alone_is_plain_decoding(recording: Recording) -> None:
    found = replay(recording, best(1))
    assert (found.rounds, found.nodes) == (found.tokens, found.tokens)


def test_the_perfect_tree_verifies_what_is_emitted(recording: Recording) -> None:
    found, recorded = replay(recording, only_accepted), replay(recording, everything)
    assert found.rounds == recorded.rounds
    assert found.nodes == found.tokens
    assert found.seconds <= recorded.seconds


def test_a_larger_tree_never_takes_more_rounds(recording: Recording) -> None:
    rounds = [replay(recording, best(size)).rounds for size in (1, 2, 4, 8, 64)]
    assert rounds == sorted(rounds, reverse=True)
    assert rounds[-1] == len(recording.rounds) < rounds[0]


@given(st.integers(0, 1000))
def test_the_text_is_the_same_whatever_a_policy_leaves_out(recording: Recording, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def policy(tree: Tree) -> set[int]:
        kept = {next(iter(tree))}
        for node, trace in tree.items():
            if trace.parent in kept and rng.random() < 0.6:
                kept.add(node)
        return kept

    found: Replayed = replay(recording, policy)
    assert found.tokens == emitted(recording)
    assert found.rounds >= len(recording.rounds)


def test_the_command_prints_policies_and_headroom(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(folder)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("as recorded")
    assert [line.split(":")[0] for line in lines[-3:]] == [
        "headroom, free_drafting",
        "headroom, perfect_pruning",
        "headroom, perfect_tree",
    ]


def test_the_page_s_example_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "traces.md").read_text(encoding="utf-8")
    exec(page.split("```python\n")[1].split("```")[0], {"folder": folder})
    assert float(capsys.readouterr().out) > 0
