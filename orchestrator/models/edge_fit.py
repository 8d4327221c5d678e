"""From recorded edges to the logistic model of acceptance, by penalised maximum likelihood, judged on held-out prompts.

The penalty pulls towards the built-in prior's weights, so little or one-sided data (a draft that is never wrong) moves
them little instead of to infinity. Folds are whole prompts: edges of one text resemble each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from device_agent.protocol import EdgeCalibration, EdgeTrace

Array = np.ndarray[Any, np.dtype[np.float64]]
Hits = np.ndarray[Any, np.dtype[np.bool_]]

FOLDS = 5
PENALTY = 1.0  # the prior's weights count as known to a standard deviation of 1
STEPS = 60  # of Newton's method at most
PRIOR = np.array(EdgeCalibration.weights)


@dataclass(frozen=True)
class EdgeData:
    features: Array  # (places, siblings, features)
    hits: Hits  # (places, siblings): which child the target chose; at most one a place
    requests: tuple[str, ...]  # (places,)


@dataclass(frozen=True)
class Score:
    """Of predicted acceptance on held-out prompts."""

    log_loss: float  # nats an edge
    auc: float | None  # that a chosen edge ranks before another; None when all edges fared alike


@dataclass(frozen=True)
class EdgeFit:
    weights: tuple[float, ...]
    places: int
    first_choice: float  # share of places where the draft's best token was chosen
    fitted: Score | None  # cross-fitted; None with fewer than two prompts
    prior: Score

    @property
    def better(self) -> bool:
        """Than the built-in prior, on prompts that it did not see."""
        return self.fitted is not None and self.fitted.log_loss < self.prior.log_loss


def edge_data(traces: Sequence[EdgeTrace]) -> EdgeData:
    """Traces have the same number of children each."""
    features = np.array([trace.features for trace in traces], np.float64)
    hits = np.arange(features.shape[1]) == np.array([trace.chosen for trace in traces])[:, None]
    return EdgeData(features, hits, tuple(trace.request for trace in traces))


def fit_edges(data: EdgeData) -> EdgeFit:
    flat, hits = data.features.reshape(-1, len(PRIOR)), data.hits.ravel()
    return EdgeFit(
        weights=tuple(fit_weights(flat, hits).tolist()),
        places=len(data.hits),
        first_choice=float(data.hits[:, 0].mean()),
        fitted=_cross_fitted(data),
        prior=_score(acceptance(data.features, PRIOR), data.hits),
    )


def fit_weights(features: Array, hits: Hits) -> Array:
    """Of (edges, features) and (edges,)."""
    return fit_logistic(features, hits, PRIOR)


def fit_logistic(features: Array, hits: Hits, prior: Array) -> Array:
    """Newton's method with step halving on the penalised likelihood of (edges, features) and (edges,)."""
    weights = prior.copy()
    loss = _loss(weights, features, hits, prior)
    for _ in range(STEPS):
        expected = sigmoid(features @ weights)
        gradient = features.T @ (expected - hits) + PENALTY * (weights - prior)
        spread = expected * (1 - expected)
        step = np.linalg.solve(features.T @ (features * spread[:, None]) + PENALTY * np.eye(len(weights)), gradient)
        while (found := _loss(weights - step, features, hits, prior)) > loss and np.abs(step).max() > 1e-9:
            step /= 2
        weights, gained, loss = weights - step, loss - found, found
        if gained < 1e-9:
            break
    return weights


def acceptance(features: Array, weights: Array) -> Array:
    """(places, siblings), as engine.edges.EdgeModel has it: siblings sum to at most 1."""
    found = sigmoid(features @ weights)
    scaled: Array = found / np.maximum(1.0, found.sum(axis=1, keepdims=True))
    return scaled


def _cross_fitted(data: EdgeData) -> Score | None:
    names = sorted(set(data.requests))
    if len(names) < 2:
        return None
    fold = np.array([names.index(request) % FOLDS for request in data.requests])
    found = np.empty(data.hits.shape)
    for held_out in range(min(FOLDS, len(names))):
        seen = fold != held_out
        weights = fit_weights(data.features[seen].reshape(-1, len(PRIOR)), data.hits[seen].ravel())
        found[~seen] = acceptance(data.features[~seen], weights)
    return _score(found, data.hits)


def _score(predicted: Array, hits: Hits) -> Score:
    p = np.clip(predicted, 1e-9, 1 - 1e-9)
    return Score(float(-np.where(hits, np.log(p), np.log1p(-p)).mean()), auc(predicted.ravel(), hits.ravel()))


def auc(predicted: Array, hits: Hits) -> float | None:
    """Mann–Whitney: the share of (chosen, other) pairs in the right order, equal ones half."""
    positive, negative = np.sort(predicted[hits]), np.sort(predicted[~hits])
    if not len(positive) or not len(negative):
        return None
    below, through = (
        np.searchsorted(negative, positive, side="left"),
        np.searchsorted(negative, positive, side="right"),
    )
    return float((below + through).mean() / 2 / len(negative))


def _loss(weights: Array, features: Array, hits: Hits, prior: Array) -> float:
    signed = np.where(hits, 1.0, -1.0) * (features @ weights)
    return float(np.logaddexp(0, -signed).sum() + PENALTY / 2 * ((weights - prior) ** 2).sum())


def sigmoid(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-np.clip(x, -30, 30)))
    return found
