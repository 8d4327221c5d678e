"""The text is plain decoding's, whatever is drafted, verified or pruned; greedy, and sampled under the same seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from device_agent.engine.costs import FlashLoad
from device_agent.engine.engine import Engine
from device_agent.engine.exactness import reference_rows
from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.sampling import Sampler, tempered, threshold
from device_agent.engine.strategy import Conditions
from device_agent.protocol import (
    ENGINE_VERSION,
    CostCalibration,
    CostTable,
    EngineSpec,
    PromptSpec,
    SamplingSpec,
)
from tests.fakes.engines import TinyPair, prune_at_random, tiny_models

__all__ = ["tiny_models"]

PROMPT = PromptSpec("p", (5, 17, 90, 33, 17, 90))
DRAFTING = {
    "chain": EngineSpec("chain", draft_k=4),
    "static_tree": EngineSpec("static_tree", draft_widths=(3, 2, 1)),
    "prompt_lookup": EngineSpec("prompt_lookup", draft_k=5, draft_ngram=2),
}
SETTINGS = {
    "greedy": SamplingSpec(),
    "tempered": SamplingSpec(0.8, seed=1),
    "top-k": SamplingSpec(1.0, top_k=5, seed=2),
    "top-p": SamplingSpec(0.9, top_p=0.7, seed=3),
    "min-p": SamplingSpec(1.2, min_p=0.2, seed=4),
    "all": SamplingSpec(1.1, top_k=20, top_p=0.9, min_p=0.05, seed=5),
}


LEVER = EngineSpec("lever", threads=1, n_ctx=256)
SLOW_FLASH = FlashLoad(1000, 3, 2)  # at 2 kB/s half a second a round: any drafting pays that hits
QUICK = CostTable(((1, 1e-3), (32, 4e-3)))
COSTS = CostCalibration(ENGINE_VERSION, "", "", 1, "flash", "", QUICK, QUICK, QUICK, QUICK)


def text(models: TinyPair, spec: EngineSpec, sampling: SamplingSpec, prompt: PromptSpec = PROMPT) -> RequestOutcome:
    return engine(models, spec, sampling).run_request(prompt, 60, ())


def engine(models: TinyPair, spec: EngineSpec, sampling: SamplingSpec) -> Engine:
    conditions = Conditions(models.target, SLOW_FLASH, lambda: 2_000.0, costs=COSTS)
    return Engine(models.target, models.draft, spec, sampling, conditions)


@pytest.mark.parametrize("sampling", SETTINGS.values(), ids=list(SETTINGS))
@pytest.mark.parametrize("spec", DRAFTING.values(), ids=list(DRAFTING))
def test_a_drafted_text_is_the_plain_one(tiny_models: TinyPair, spec: EngineSpec, sampling: SamplingSpec) -> None:
    plain, drafted = text(tiny_models, EngineSpec(), sampling), text(tiny_models, spec, sampling)
    assert drafted.result.output_ids == plain.result.output_ids
    if spec.strategy != "prompt_lookup":
        assert len(drafted.rounds) < len(plain.rounds), "nothing was accepted, so nothing is shown"


@pytest.mark.parametrize("sampling", [SETTINGS["greedy"], SETTINGS["all"]], ids=["greedy", "sampled"])
@pytest.mark.parametrize("spec", [*DRAFTING.values(), LEVER], ids=[*DRAFTING, "lever"])
def test_dropping_nodes_at_random_never_changes_the_text(
    tiny_models: TinyPair, spec: EngineSpec, sampling: SamplingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = text(tiny_models, EngineSpec(), sampling)
    made = prune_at_random(monkeypatch)
    pruned = text(tiny_models, replace(spec, trace_nodes=True), sampling)
    assert pruned.result.output_ids == plain.result.output_ids
    traced = [layer for tree in pruned.trees for layer in tree.pruned_at.values()]
    assert sum(trace.nodes_pruned for trace in pruned.rounds) == len(traced) >= made[0].dropped
    assert all(tree.pruned_at.keys().isdisjoint(tree.path) for tree in pruned.trees)
    if spec.strategy != "prompt_lookup":
        assert set(traced) == {1, 2}
        assert made[0].lost > 0, "no node was lost that would have been accepted"


def test_seed_and_request_make_the_text(tiny_models: TinyPair) -> None:
    spec, sampling = DRAFTING["static_tree"], SETTINGS["tempered"]
    one = text(tiny_models, spec, sampling).result.output_ids
    assert text(tiny_models, spec, sampling).result.output_ids == one
    assert text(tiny_models, spec, SamplingSpec(0.8, seed=9)).result.output_ids != one
    assert text(tiny_models, spec, sampling, PromptSpec("q", PROMPT.token_ids)).result.output_ids != one


@pytest.mark.parametrize("name", ["static_tree", "chain", "lever", "lever, pruned"])
def test_pairs_of_tokens_come_as_often_as_the_target_says(
    tiny_models: TinyPair, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chi-square over the joint distribution of output tokens 2 and 3, which rounds emit, given the first."""
    made = prune_at_random(monkeypatch) if name == "lever, pruned" else []
    sampling = SamplingSpec(1.5, top_k=3)
    first = text(tiny_models, EngineSpec(), SamplingSpec()).result.output_ids[0]
    prompt = PromptSpec("p", (*PROMPT.token_ids, first))
    spec = DRAFTING.get(name, LEVER)
    engines = (engine(tiny_models, spec, SamplingSpec(1.5, top_k=3, seed=seed)) for seed in range(600))
    found = Counter(engine.run_request(prompt, 3, ()).result.output_ids[:2] for engine in engines)
    expected = {
        (a, b): 600 * p * q
        for a, p in distribution(tiny_models, prompt.token_ids, sampling)
        for b, q in distribution(tiny_models, (*prompt.token_ids, a), sampling)
    }
    assert set(found) <= set(expected)
    assert len(expected) == 9
    statistic = sum((found[pair] - wanted) ** 2 / wanted for pair, wanted in expected.items())
    assert statistic < 26.1, "the 0.1 % point of chi-square with 8 degrees of freedom"
    assert sum(pruner.dropped for pruner in made) > 0 or name != "lever, pruned"


def distribution(models: TinyPair, tokens: tuple[int, ...], sampling: SamplingSpec) -> Iterator[tuple[int, float]]:
    row = next(reference_rows(models.target, tokens, (0,)))
    scaled = tempered(row, sampling.temperature)
    kept = np.flatnonzero(scaled >= threshold(scaled, sampling))
    weights = np.exp(scaled[kept])
    yield from zip(kept.tolist(), (weights / weights.sum()).tolist(), strict=True)


def test_the_random_numbers_are_even_and_unrelated() -> None:
    samplers = [Sampler(SamplingSpec(1.0, seed=seed), request, "m") for seed in range(20) for request in "ab"]
    numbers = np.array([[sampler.uniform(index) for index in range(50)] for sampler in samplers])
    counts = np.histogram(numbers, bins=10, range=(0, 1))[0]
    assert ((counts - 200) ** 2 / 200).sum() < 27.9, "the 0.1 % point with 9 degrees of freedom"
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.1
    assert abs(np.corrcoef(numbers[0::2].ravel(), numbers[1::2].ravel())[0, 1]) < 0.1
