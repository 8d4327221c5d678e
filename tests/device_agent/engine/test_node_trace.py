"""nodes.jsonl of a real job on tiny models."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_agent.engine.exactness import reference_rows
from device_agent.job import run_spec
from device_agent.job_folder import JobLog
from device_agent.kernels.base import Floats
from device_agent.protocol import (
    PROTOCOL_VERSION,
    EngineSpec,
    JobResult,
    JobSpec,
    NodeTrace,
    PromptSpec,
    SamplingSpec,
    StorageSpec,
    from_json,
)
from tests.fakes.engines import DRAFT, TARGET, TinyPair, tiny_models
from tests.fakes.packs import write_pack

__all__ = ["tiny_models"]

PROMPTS = (PromptSpec("one", (5, 17, 90)), PromptSpec("two", (33, 8)))


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> JobSpec:
    packs = tmp_path_factory.mktemp("packs")
    target, draft = (write_pack(packs, model).name for model in (TARGET, DRAFT))
    tree = EngineSpec("static_tree", draft_widths=(3, 2), storage=StorageSpec("resident"), n_ctx=256, trace_nodes=True)
    return JobSpec(PROTOCOL_VERSION, "a", "t", target, draft, tree, PROMPTS, 20, (), packs_dir=str(packs))


def run(spec: JobSpec, folder: Path) -> JobResult:
    with JobLog(folder) as log:
        return run_spec(folder, spec, log)


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.mark.parametrize("sampling", [SamplingSpec(), SamplingSpec(0.9, top_p=0.8, seed=3)], ids=["greedy", "sampled"])
def test_nodes_say_what_was_verified_and_what_the_target_thought(
    spec: JobSpec, sampling: SamplingSpec, tmp_path: Path, tiny_models: TinyPair
) -> None:
    result = run(replace(spec, sampling=sampling), tmp_path)
    assert result.tags["exactness"] == "exact 40/40, ties 0"
    nodes = [from_json(NodeTrace, line) for line in lines(tmp_path, "nodes.jsonl")]
    rounds = {(line["request"], line["round"]): line for line in lines(tmp_path, "rounds.jsonl")}
    verified = Counter((node.request, node.round) for node in nodes)
    accepted = Counter((node.request, node.round) for node in nodes if node.accepted and node.depth > 0)
    assert verified == {name: line["nodes_verified"] for name, line in rounds.items()}
    assert {name: accepted[name] for name in rounds} == {n: line["accepted_tokens"] for n, line in rounds.items()}
    for request, prompt in zip(result.requests, PROMPTS, strict=True):
        mine = [node for node in nodes if node.request == request.id]
        rows = list(map(np.copy, reference_rows(tiny_models.target, prompt.token_ids, request.output_ids)))
        check_against(mine, request.output_ids, rows)


def check_against(nodes: list[NodeTrace], output: tuple[int, ...], rows: list[Floats]) -> None:
    """Every accepted node is an output token, in order; its and its children's probabilities are the target's."""
    by_name = {(node.round, node.node): node for node in nodes}
    index = -1
    for node in nodes:
        parent = by_name.get((node.round, node.parent))
        if not node.accepted:
            assert node.target_top is None
            assert (node.target_prob is not None) == (parent is not None and parent.target_top is not None)
            continue
        index += 1
        assert node.token == output[index]
        assert (node.draft_prob is None) == (node.depth == 0)
        if index + 1 == len(output):
            assert node.target_top is None, "nothing came after it"
            continue
        probs = np.exp(rows[index + 1] - rows[index + 1].max())
        probs /= probs.sum()
        assert node.target_top is not None
        assert node.target_top[0][0] == int(probs.argmax())
        for token, prob in node.target_top:
            assert prob == pytest.approx(probs[token], rel=1e-4)
        for child in (n for n in nodes if n.round == node.round and n.parent == node.node):
            assert child.target_prob == pytest.approx(probs[child.token], rel=1e-4)
    assert index + 1 in (len(output), len(output) - 1), "a round's own last token may be nobody's node"


def test_siblings_are_ranked_by_the_draft(spec: JobSpec, tmp_path: Path) -> None:
    run(spec, tmp_path)
    nodes = [from_json(NodeTrace, line) for line in lines(tmp_path, "nodes.jsonl")]
    first = sorted((n for n in nodes if n.request == "one" and n.round == 0 and n.depth == 1), key=lambda n: n.rank)
    assert [node.rank for node in first] == [0, 1, 2]
    probs = [node.draft_prob or 0.0 for node in first]
    assert probs == sorted(probs, reverse=True)
    assert 0 < sum(probs) <= 1


def test_without_a_check_the_target_is_not_asked(spec: JobSpec, tmp_path: Path) -> None:
    run(replace(spec, check_exactness=False), tmp_path)
    nodes = lines(tmp_path, "nodes.jsonl")
    assert nodes
    assert {node["target_prob"] for node in nodes} == {None}
    assert {str(node["target_top"]) for node in nodes} == {"None"}


def test_nothing_is_written_unless_asked_for_and_nothing_is_left_of_a_start_before(
    spec: JobSpec, tmp_path: Path
) -> None:
    run(spec, tmp_path)
    run(replace(spec, engine=replace(spec.engine, trace_nodes=False)), tmp_path)
    assert not (tmp_path / "nodes.jsonl").exists()


def test_a_stop_token_in_the_middle_of_a_path_ends_text_and_trace(spec: JobSpec, tmp_path: Path) -> None:
    output = run(spec, tmp_path).requests[0].output_ids
    stop = next(token for i, token in enumerate(output) if i > 3 and output.index(token) == i)
    result = run(replace(spec, stop_token_ids=(stop,)), tmp_path).requests[0]
    assert (result.output_ids, result.stop_reason) == (output[: output.index(stop) + 1], "stop_token")
    nodes = [from_json(NodeTrace, line) for line in lines(tmp_path, "nodes.jsonl")]
    emitted = [node.token for node in nodes if node.request == "one" and node.accepted]
    assert emitted in (list(result.output_ids), list(result.output_ids[:-1]))
