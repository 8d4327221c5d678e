"""Recorded states are those that the target's choices rest on, in the order of the edge traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from device_agent.failure import AgentFailure
from device_agent.job import run_spec
from device_agent.job_folder import JobLog
from device_agent.model.transformer import causal_batch
from device_agent.protocol import PROTOCOL_VERSION, STATES, EngineSpec, JobResult, JobSpec, PromptSpec, StorageSpec
from tests.fakes.engines import DRAFT, TARGET, TinyPair, tiny_models
from tests.fakes.packs import write_pack

__all__ = ["tiny_models"]

PROMPTS = (PromptSpec("one", (5, 17, 90)), PromptSpec("two", (33, 8, 100, 4)))


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> JobSpec:
    packs = tmp_path_factory.mktemp("packs")
    target, draft = (write_pack(packs, model).name for model in (TARGET, DRAFT))
    engine = EngineSpec("chain", 4, storage=StorageSpec("resident"), n_ctx=256, threads=1)
    job = JobSpec(PROTOCOL_VERSION, "a", "t", target, draft, engine, PROMPTS, 12, (), packs_dir=str(packs))
    return replace(job, kind="edges", state_layers=(1, 2))


def run(spec: JobSpec, folder: Path) -> JobResult:
    with JobLog(folder) as log:
        return run_spec(folder, spec, log)


def test_each_place_has_the_states_that_its_choice_was_made_by(
    spec: JobSpec, tmp_path: Path, tiny_models: TinyPair
) -> None:
    """The final states, projected, choose what the traces say was chosen; texts are told apart."""
    edges = run(spec, tmp_path).edges
    arrays = np.load(tmp_path / STATES)
    assert len(edges) == len(arrays["final"]) == len(arrays["layer_1"]) == len(arrays["layer_2"]) == 2 * 11
    assert [tuple(row) for row in arrays["tokens"].tolist()] == [trace.tokens for trace in edges]
    best = tiny_models.target.project(arrays["final"].astype(np.float32)).argmax(axis=1).tolist()
    hits = [(trace.tokens[trace.chosen], token) for trace, token in zip(edges, best, strict=True) if trace.chosen >= 0]
    assert len(hits) > 8
    assert all(chosen == token for chosen, token in hits)
    assert all(token not in trace.tokens for trace, token in zip(edges, best, strict=True) if trace.chosen < 0)

    first = [*PROMPTS[0].token_ids]
    states = tiny_models.target.forward(causal_batch(first))
    first.append(int(tiny_models.target.project(states[-1:])[0].argmax()))
    again = tiny_models.target.forward(causal_batch(first))[-1]
    np.testing.assert_allclose(arrays["final"][0], again / np.sqrt(np.mean(again**2)), atol=5e-3)


def test_rows_are_those_of_the_drafted_tokens(spec: JobSpec, tmp_path: Path, tiny_models: TinyPair) -> None:
    """A row's product with a normed state is the token's logit."""
    run(spec, tmp_path)
    arrays = np.load(tmp_path / STATES)
    assert set(arrays["row_tokens"].tolist()) == set(arrays["tokens"].ravel().tolist())
    states = arrays["final"][:3].astype(np.float32)
    logits = tiny_models.target.project(states)[:, arrays["row_tokens"]]
    weight = tiny_models.target.source.tensors()["output_norm.weight"]  # type: ignore[attr-defined]
    np.testing.assert_allclose((states * weight) @ arrays["rows"].astype(np.float32).T, logits, atol=0.02, rtol=0.01)


def test_nothing_is_recorded_unasked(spec: JobSpec, tmp_path: Path) -> None:
    run(replace(spec, state_layers=()), tmp_path)
    assert not (tmp_path / STATES).exists()


@pytest.mark.parametrize("layer", [0, 3])
def test_layers_that_are_not_there_are_refused(spec: JobSpec, tmp_path: Path, layer: int) -> None:
    with pytest.raises(AgentFailure, match=f"states after layer {layer}"):
        run(replace(spec, state_layers=(layer,)), tmp_path)
