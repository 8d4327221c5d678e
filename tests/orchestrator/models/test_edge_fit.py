"""The fit of acceptance: it finds a known model again, and one-sided data does not lead it astray."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.engine.edges import EdgeModel, edge_features
from device_agent.protocol import EdgeCalibration, EdgeTrace
from orchestrator.models.edge_fit import PRIOR, acceptance, edge_data, fit_edges

SIBLINGS = 6


def drawn(weights: list[float], places: int, seed: int = 0, requests: int = 10) -> list[EdgeTrace]:
    """Places where the target chose by the model of `weights`."""
    rng, model = np.random.default_rng(seed), EdgeModel(EdgeCalibration("true", tuple(weights)))
    found = []
    for place in range(places):
        probs = np.sort(rng.dirichlet(np.full(20, rng.choice([0.05, 0.3, 1.0]))))[::-1][:SIBLINGS]
        features = edge_features(probs.tolist(), int(rng.integers(1, 10)))
        sure = model.edges(features)
        chosen = int(rng.choice(SIBLINGS + 1, p=[*sure, max(0.0, 1 - sure.sum())]))
        traced = tuple(tuple(row) for row in features.tolist())
        found.append(EdgeTrace(str(place % requests), traced, chosen if chosen < SIBLINGS else -1))
    return found


def alike(chosen: int, places: int = 60, requests: int = 3) -> list[EdgeTrace]:
    """Places that all went the same way."""
    features = edge_features([0.9, 0.05, 0.02, 0.01, 0.005, 0.004], 2)
    traced = tuple(tuple(row) for row in features.tolist())
    return [EdgeTrace(str(place % requests), traced, chosen) for place in range(places)]


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.floats(0.5, 1.2), st.floats(-0.8, 0.0), st.floats(-0.5, 0.5))
def test_a_known_model_is_found_again(seed: int, slope: float, rank: float, depth: float) -> None:
    """Its predictions, that is: weights of features that go together are not told apart by a thousand edges."""
    true = [-1.0, slope, rank, depth, -0.3]
    data = edge_data(drawn(true, 3000, seed))
    fit = fit_edges(data)
    apart = np.abs(acceptance(data.features, np.array(fit.weights)) - acceptance(data.features, np.array(true)))
    assert apart.mean() < 0.02
    assert fit.fitted is not None
    assert fit.fitted.log_loss <= fit.prior.log_loss + 1e-3


def test_what_differs_from_the_prior_is_learnt() -> None:
    fit = fit_edges(edge_data(drawn([-2.0, 0.4, -0.2, 0.6, 0.0], 3000)))
    assert fit.better
    assert fit.fitted is not None
    assert fit.fitted.auc is not None
    assert fit.fitted.auc > 0.7
    assert fit.prior.log_loss - fit.fitted.log_loss > 0.01


def test_a_few_edges_move_little() -> None:
    fit = fit_edges(edge_data(drawn(PRIOR.tolist(), 6, requests=2)))
    assert np.abs(np.array(fit.weights) - PRIOR).max() < 1.5


def test_predictions_are_those_of_the_agent() -> None:
    features = edge_features([0.6, 0.5, 0.4], 3)
    weights = (0.5, 1.0, -0.1, 0.1, 0.0)
    assert acceptance(features[None], np.array(weights))[0] == pytest.approx(
        EdgeModel(EdgeCalibration("k", weights)).edges(features)
    )


def test_a_draft_that_is_never_wrong() -> None:
    fit = fit_edges(edge_data(alike(0)))
    assert np.isfinite(fit.weights).all()
    assert np.abs(fit.weights).max() < 20
    assert fit.first_choice == 1
    assert fit.fitted is not None
    assert fit.fitted.auc == 1


@pytest.mark.parametrize("chosen", [-1])
def test_a_draft_that_is_always_wrong(chosen: int) -> None:
    fit = fit_edges(edge_data(alike(chosen)))
    assert np.isfinite(fit.weights).all()
    assert fit.fitted is not None
    assert fit.fitted.auc is None
    assert fit.better


def test_one_prompt_says_nothing_of_others() -> None:
    fit = fit_edges(edge_data(drawn([-2.0, 0.4, -0.2, 0.6, 0.0], 300, requests=1)))
    assert fit.fitted is None
    assert not fit.better
