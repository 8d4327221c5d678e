from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.engine.edges import EdgeModel, edge_features
from device_agent.protocol import EdgeCalibration

WEIGHTS = st.tuples(*[st.floats(-3, 3)] * 5)
PROBS = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(WEIGHTS, PROBS, st.integers(1, 30))
def test_siblings_sum_to_at_most_one(weights: tuple[float, ...], probs: list[float], depth: int) -> None:
    shares = sorted((prob / max(1.0, sum(probs)) for prob in probs), reverse=True)
    edges = EdgeModel(EdgeCalibration(weights=weights)).edges(edge_features(shares, depth))
    assert edges.sum() <= 1 + 1e-9
    assert (edges >= 0).all()


def test_the_prior_prefers_what_the_draft_prefers() -> None:
    edges = EdgeModel(EdgeCalibration()).edges(edge_features([0.6, 0.2, 0.05], 1))
    assert list(edges) == sorted(edges, reverse=True)
    assert 0.4 < edges[0] < 0.9


@pytest.mark.parametrize("rate", [0.05, 0.25, 0.95])
def test_observing_moves_towards_the_observed_rate(rate: float) -> None:
    model, features = EdgeModel(EdgeCalibration()), edge_features([0.6, 0.2, 0.05], 2)
    before = abs(model.edges(features)[0] - rate)
    rng = np.random.default_rng(0)
    for _ in range(300):
        model.observe(features, np.array([rng.random() < rate, False, False]))
    assert abs(model.edges(features)[0] - rate) < min(0.1, before)


def test_a_change_is_followed() -> None:
    model, features = EdgeModel(EdgeCalibration()), edge_features([0.6], 1)
    for hit in [True] * 200 + [False] * 200:
        model.observe(features, np.array([hit]))
    assert model.edges(features)[0] < 0.15


def test_one_node_changes_little() -> None:
    model, features = EdgeModel(EdgeCalibration()), edge_features([0.6, 0.2], 1)
    before = model.edges(features)
    model.observe(features, np.array([False, False]))
    assert abs(model.edges(features) - before).max() < 0.1
