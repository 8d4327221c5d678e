"""Lever with a predictor, on tiny models: when it prunes, what it says of it, and that the text is plain decoding's."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest

from device_agent.engine.costs import FlashLoad
from device_agent.engine.engine import Engine
from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.predictor import Predictor, known_features, normed
from device_agent.engine.strategy import Conditions
from device_agent.engine.tree import TokenTree
from device_agent.failure import AgentFailure
from device_agent.model.output_rows import OutputTable
from device_agent.protocol import (
    ENGINE_VERSION,
    CostCalibration,
    CostTable,
    DraftingSpec,
    EnergySpec,
    EngineSpec,
    LayerPredictor,
    PredictorCalibration,
    PromptSpec,
    PruningSpec,
    RecallPoint,
    SamplingSpec,
)
from tests.fakes.engines import TinyPair, tiny_models

__all__ = ["tiny_models"]

PROMPT = PromptSpec("p", (5, 17, 90, 33, 17, 90))
D_MODEL = 64
# Drafting costs nothing, a token verified 0.2 s: computing is the limit, and doubtful nodes are dear.
FREE, DEAR = CostTable(((1, 1e-4), (16, 1e-4))), CostTable(((1, 1.0), (16, 4.0)))
COSTS = CostCalibration(ENGINE_VERSION, "", "", 1, "resident", "", FREE, FREE, DEAR, FREE)
RESIDENT, SLOW_FLASH = FlashLoad(), FlashLoad(1_000_000, 3, 2)  # at 1 kB/s reading hides any computing


def doubting(layer: int, recall: float = 0.995, d_model: int = D_MODEL) -> LayerPredictor:
    """Believes less in everything than the draft does, whatever it sees."""
    maps = base64.b64encode(np.zeros((2 * 2 + 1, d_model), np.float16).tobytes()).decode()
    return LayerPredictor(layer, 2, maps, (-3.0, 1.0, 0.0, 0.0, 0.0, 0.0), (RecallPoint(recall, 0.9, 0.5),))


def pruning(*layers: LayerPredictor, **changes: object) -> PruningSpec:
    return replace(PruningSpec(True, predictor=PredictorCalibration("k", layers)), **changes)  # type: ignore[arg-type]


def run(
    models: TinyPair,
    spec: PruningSpec,
    load: FlashLoad = RESIDENT,
    objective: str = "latency",
    sampling: SamplingSpec = SamplingSpec(),  # noqa: B008  # frozen
) -> RequestOutcome:
    engine = EngineSpec("lever", drafting=DraftingSpec(objective=objective), pruning=spec, trace_nodes=True)
    power = EnergySpec("model", 0.1, 5.0, 0.0)
    conditions = Conditions(models.target, load, lambda: 1_000.0 if load.nbytes else None, power, 1, COSTS)
    return Engine(models.target, models.draft, engine, sampling, conditions).run_request(PROMPT, 40, ())


def said(outcome: RequestOutcome) -> set[str]:
    return {trace.pruning for trace in outcome.rounds if trace.nodes_verified > 1}


@pytest.mark.parametrize("sampling", [SamplingSpec(), SamplingSpec(0.9, top_p=0.9, seed=3)], ids=["greedy", "sampled"])
def test_doubtful_nodes_go_where_computing_is_the_limit(tiny_models: TinyPair, sampling: SamplingSpec) -> None:
    plain = Engine(tiny_models.target, None, EngineSpec(), sampling).run_request(PROMPT, 40, ())
    found = run(tiny_models, pruning(doubting(1), doubting(2)), sampling=sampling)
    assert found.result.output_ids == plain.result.output_ids
    assert "tried" in said(found)
    layers = {layer for tree in found.trees for layer in tree.pruned_at.values()}
    assert layers <= {1, 2}
    assert sum(trace.nodes_pruned for trace in found.rounds) > 0


def test_what_reading_hides_is_not_pruned_and_the_trace_says_so(tiny_models: TinyPair) -> None:
    found = run(tiny_models, pruning(doubting(1)), SLOW_FLASH)
    assert said(found) == {"hidden"}
    assert sum(trace.nodes_pruned for trace in found.rounds) == 0


def test_energy_is_saved_even_where_reading_hides_the_computing(tiny_models: TinyPair) -> None:
    found = run(tiny_models, pruning(doubting(1)), SLOW_FLASH, "energy")
    assert "tried" in said(found)
    assert sum(trace.nodes_pruned for trace in found.rounds) > 0


@pytest.mark.parametrize(
    "spec",
    [PruningSpec(), pruning(), pruning(doubting(1), enabled=False), pruning(doubting(1), target_recall=0.999)],
    ids=["default", "no predictor", "off", "more recall than any limit keeps"],
)
def test_without_a_usable_predictor_nothing_is_pruned(tiny_models: TinyPair, spec: PruningSpec) -> None:
    found = run(tiny_models, spec)
    assert said(found) == {"off"}
    assert sum(trace.nodes_pruned for trace in found.rounds) == 0


def test_only_the_wanted_layers_prune(tiny_models: TinyPair) -> None:
    found = run(tiny_models, pruning(doubting(1), doubting(2), layers=(2,)))
    assert {layer for tree in found.trees for layer in tree.pruned_at.values()} == {2}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (pruning(doubting(1), layers=(3,)), "predictor k knows layers 1, not 3"),
        (pruning(doubting(1, d_model=32)), "has 160 numbers, not 2·2 \\+ 1 rows of 64"),
        (pruning(doubting(3)), "after layer 3, but the target has 3"),
    ],
    ids=["unknown layer", "another model", "the last layer"],
)
def test_predictors_that_do_not_fit_are_refused(tiny_models: TinyPair, spec: PruningSpec, message: str) -> None:
    with pytest.raises(AgentFailure, match=message):
        run(tiny_models, spec)


def test_survival_is_the_product_of_edges_that_share_one(tiny_models: TinyPair) -> None:
    rng = np.random.default_rng(1)
    rank, weights = 2, np.array([0.2, 0.9, -0.1, 0.05, 0.7, 0.4])
    maps = rng.standard_normal((2 * rank + 1, D_MODEL)).astype(np.float16)
    known = LayerPredictor(1, rank, base64.b64encode(maps.tobytes()).decode(), tuple(weights), ())
    tree = TokenTree(3)
    first, second = tree.add(10, 0, 0.8, 0.7), tree.add(11, 0, 0.1, None)
    third = tree.add(12, first, 0.9, 0.85)
    nodes, states = [0, first, second, third], rng.standard_normal((4, D_MODEL)).astype(np.float32)
    output = OutputTable(tiny_models.target.source)
    found = Predictor(known, D_MODEL).survival(tree, nodes, states, output)

    rows, x = output.rows([10, 11, 12]), normed(states)
    edges = []
    for row, parent, prob, rank_, depth in ((0, 0, 0.7, 1, 1), (1, 0, 0.1, 2, 1), (2, 1, 0.85, 1, 2)):
        score = float((maps[:2].astype(np.float32) @ x[parent]) @ (maps[2:4].astype(np.float32) @ rows[row]))
        level = float(maps[4].astype(np.float32) @ x[parent])
        features = [*known_features(np.array([prob]), np.array([rank_]), np.array([depth]))[0], score, level]
        edges.append(1 / (1 + np.exp(-float(np.dot(features, weights)))))
    shared = max(1.0, edges[0] + edges[1])
    assert found == pytest.approx([1, edges[0] / shared, edges[1] / shared, edges[0] / shared * edges[2]], rel=1e-4)
