"""Predictors learnt from made-up places: found where states know more than the draft, refused where they do not."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_agent.engine.edges import edge_features
from device_agent.protocol import CostCalibration, CostTable, EdgeCalibration, EdgeTrace
from orchestrator.models.edge_fit import Array
from orchestrator.models.predictor import LEAST_PLACES, learn_predictor, recorded_layers
from orchestrator.models.rounds_replay import Costs, Places, Shape, rate, replay, subtree_size

D, VOCABULARY, CHILDREN, LAYERS = 24, 40, 4, 8
PER_TEXT = 60
# A further token costs two fifths of the first, a draft pass next to nothing.
COSTS = CostCalibration(
    "", "", "", 1, "resident", "",
    draft=CostTable(((1, 0.001), (16, 0.002))),
    draft_project=CostTable(((1, 0.001), (16, 0.001))),
    verify=CostTable(((1, 0.05), (32, 0.7))),
    project=CostTable(((1, 0.001), (4, 0.004))),
)  # fmt: skip


def places(folder: Path, count: int, knowing: bool) -> tuple[Path, list[EdgeTrace]]:
    """The target chooses the drafted token whose row is nearest to the state; the draft guesses half of the time.

    The states recorded after layer 4 are those, turned and noisy, if `knowing`; else they are noise.
    """
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((VOCABULARY, D))
    turn = np.linalg.qr(rng.standard_normal((D, D)))[0]
    tokens = np.array([rng.choice(VOCABULARY, CHILDREN, replace=False) for _ in range(count)])
    final = rows[tokens[np.arange(count), rng.integers(0, CHILDREN, count)]] + 0.4 * rng.standard_normal((count, D))
    chosen = np.einsum("pd,pcd->pc", final, rows[tokens]).argmax(axis=1)
    probs = np.sort(rng.dirichlet([0.6] * CHILDREN, count))[:, ::-1]
    order = rng.random(count) < 0.5  # the draft's best is right, or chance decides
    tokens[order, 0], tokens[order, chosen[order]] = tokens[order, chosen[order]], tokens[order, 0]
    chosen = np.where(order, 0, chosen)
    seen = final @ turn if knowing else rng.standard_normal((count, D))
    states = seen + 0.3 * rng.standard_normal((count, D))
    file = folder / "states.npz"
    halves = {"layer_4": states, "final": final, "rows": rows}
    arrays = {name: scaled(x) if name != "rows" else x.astype(np.float16) for name, x in halves.items()}
    np.savez(file, **arrays, tokens=tokens.astype(np.int32), row_tokens=np.arange(VOCABULARY))  # type: ignore[arg-type]
    traces = [
        EdgeTrace(
            f"text {place // PER_TEXT}", features(probs[place]), int(chosen[place]), tuple(tokens[place].tolist())
        )
        for place in range(count)
    ]
    return file, traces


def scaled(x: Array) -> np.ndarray[Any, np.dtype[np.float16]]:
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=1, keepdims=True)), np.float16)


def features(probs: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, edge_features(probs.tolist(), 1).tolist()))


def test_where_the_target_knows_more_than_the_draft_a_predictor_is_kept(tmp_path: Path) -> None:
    file, traces = places(tmp_path, 2400, knowing=True)
    report, layers = learn_predictor(file, traces, EdgeCalibration.weights, COSTS, LAYERS)
    (seen,) = report.layers
    assert report.useful, report.why
    assert seen.auc is not None
    assert seen.known_auc is not None
    assert seen.auc > seen.known_auc + 0.05
    assert seen.removed is not None
    assert seen.known_removed is not None
    assert seen.removed > seen.known_removed + 0.1
    assert seen.recall is not None
    assert seen.recall >= 0.99
    assert 1.01 < seen.speedup < seen.headroom
    (kept,) = layers
    assert (kept.layer, kept.rank) == (4, 16)
    assert len(base64.b64decode(kept.maps)) == 2 * (2 * 16 + 1) * D
    assert [point.recall for point in kept.points] == sorted(point.recall for point in kept.points)


def test_states_that_know_nothing_make_no_predictor_and_the_report_says_why(tmp_path: Path) -> None:
    report, layers = learn_predictor(*places(tmp_path, 1200, knowing=False), EdgeCalibration.weights, COSTS, LAYERS)
    assert not report.useful
    assert layers == ()
    assert "after layer 4" in report.why
    (seen,) = report.layers
    assert seen.auc == pytest.approx(seen.known_auc, abs=0.02)


def test_too_few_places_are_not_learnt_from(tmp_path: Path) -> None:
    report, layers = learn_predictor(*places(tmp_path, 120, knowing=True), EdgeCalibration.weights, COSTS, LAYERS)
    assert (report.useful, layers) == (False, ())
    assert f"{LEAST_PLACES} at least" in report.why


def test_layers_that_are_recorded_lie_between_the_first_and_the_last() -> None:
    assert recorded_layers(28) == (14, 21, 24, 26)
    assert recorded_layers(2) == (1,)


def tree_places() -> Places:
    """Two texts; the first child is right, right, wrong; then right."""
    known = np.array([[0.6, 0.3], [0.5, 0.2], [0.8, 0.1], [0.9, 0.05]])
    hits = np.array([[True, False], [False, True], [False, False], [True, False]])
    return Places(known, known / 2, hits, np.array([True, False, False, True]))


def test_rounds_go_on_while_the_choice_is_in_the_tree() -> None:
    """0.6 is accepted; of its children 0.3 is held and wrong, 0.12 is chosen but not held: the round ends there."""
    found = replay(tree_places(), Shape(0.2, 4), lambda value, levels: (0.0, 0.0))
    assert list(zip(found.round_of.tolist(), found.place.tolist(), found.accepted.tolist(), strict=True)) == [
        (0, 0, True), (0, 0, False), (0, 1, False), (1, 2, False), (2, 3, True),
    ]  # fmt: skip
    assert found.prior == pytest.approx([0.6, 0.3, 0.3, 0.8, 0.9])
    assert found.survival[2] == pytest.approx(0.3 * 0.25)
    assert found.rounds == 3


def test_a_wrong_node_takes_what_hangs_below_it_along() -> None:
    found = replay(tree_places(), Shape(0.2, 2), lambda value, levels: (10.0 * levels, levels))
    assert found.weight.tolist() == [1, 11, 1, 11, 1]
    assert found.deepest.tolist() == [1, 2, 2, 2, 1]
    everything, right = np.ones(5, np.bool_), found.accepted
    costs = Costs(lambda tokens: 0 * tokens, lambda tokens: tokens, 0.0)
    assert rate(found, costs, everything, 0.5) == pytest.approx(5 / (25 + 3))
    assert rate(found, costs, right, 0.5) == pytest.approx(5 / (0.5 * 28 + 0.5 * 5))
    drafting = Costs(lambda tokens: 1 + 0 * tokens, lambda tokens: 0 * tokens, 0.0)
    assert rate(found, drafting, everything, 0.5) == pytest.approx(5 / (2 + 2 + 1))
    joules = Costs(lambda tokens: 0 * tokens, lambda tokens: tokens, 0.0, 20.0, lambda busy_s, s: 2 * busy_s + s)
    assert rate(found, joules, everything, 0.5) == pytest.approx(5 / (2 * 28 + 3 * 20))
    assert (found.recall(right), found.removed(right)) == (1.0, 1.0)


def test_what_hangs_below_a_node_is_what_trees_hold_there() -> None:
    """Every place has one child of a half: below a node of value v there are log2(v ÷ least), as far as levels go."""
    below = subtree_size(np.full((50, 1), 0.5), Shape(0.06, 8))
    assert below(1.0, 8) == pytest.approx((4, 4), abs=0.6)
    assert below(1.0, 2) == pytest.approx((2, 2))
    assert below(0.07, 8) == pytest.approx((0, 0), abs=0.3)
    assert below(1.0, 0) == (0, 0)
