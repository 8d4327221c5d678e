"""From recorded places to a layer's predictor, cross-fitted: maps, logistic weights and limits each see other prompts
than those that they are judged on, or recall would be an illusion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestrator.models import bilinear_fit
from orchestrator.models.bilinear_fit import Bilinear, fit_bilinear
from orchestrator.models.edge_fit import Array, Hits, auc, fit_logistic, sigmoid
from orchestrator.models.rounds_replay import Below, Indices, Places, Replayed, Shape, replay

FOLDS = 4
RECALLS = (0.97, 0.98, 0.985, 0.99, 0.9925, 0.995, 0.9975, 0.999)  # asked of the limits


@dataclass(frozen=True)
class Recorded:
    """Places of one layer, in the order of their texts."""

    maps: bilinear_fit.Places
    known: Array  # (places, children, 4): predictor features known beforehand (engine.predictor.known_features)
    hits: Hits  # (places, children)
    text: Indices  # (places,): number of the text that each is of
    begins: Hits  # (places,): where a round must begin: at a text's first place

    def probabilities(self) -> Array:
        return sigmoid(self.known[..., 1])


@dataclass(frozen=True)
class Point:
    """What limits at one asked recall do to rounds that no part of the fit has seen."""

    recall: float
    survival: float  # the limit
    removed: float  # share of wrong nodes
    keep: Hits  # (nodes,): what it leaves


@dataclass(frozen=True)
class PredictorFit:
    maps: Bilinear
    weights: tuple[float, ...]
    predicted: Array  # (places, children), held out
    auc: float | None  # of edges, held out
    known_auc: float | None  # of what was known beforehand


def fit_predictor(data: Recorded, rank: int) -> PredictorFit:
    folds = data.text % FOLDS
    scores = np.zeros((*data.hits.shape, 2))
    for fold in range(FOLDS):
        seen = folds != fold
        maps = _maps(data, seen, rank)
        scores[~seen] = _features(maps, data.maps.only(~seen))
    features = np.concatenate((data.known, scores), axis=2)
    predicted = np.zeros(data.hits.shape)
    for fold in range(FOLDS):
        seen = folds != fold
        predicted[~seen] = shared(sigmoid(features[~seen] @ _weights(features[seen], data.hits[seen])))
    return PredictorFit(
        maps=_maps(data, np.ones(len(folds), np.bool_), rank),
        weights=tuple(_weights(features, data.hits).tolist()),
        predicted=predicted,
        auc=auc(predicted.ravel(), data.hits.ravel()),
        known_auc=auc(data.probabilities().ravel(), data.hits.ravel()),
    )


def replayed(data: Recorded, predicted: Array, shape: Shape, below: Below | None = None) -> Replayed:
    """Rounds of trees of `shape` over the places."""
    return replay(Places(data.probabilities(), predicted, data.hits, data.begins), shape, below)


def points(found: Replayed, survival: Array, text: Indices) -> tuple[Point, ...]:
    """Limits on `survival` (nodes,) at each asked recall, judged on texts that did not set them; by rising recall.

    `text` (places,) as Recorded has it.
    """
    folds = text[found.place] % FOLDS
    held: list[Point] = []
    for asked in RECALLS:
        keep = np.ones(len(survival), np.bool_)
        for fold in range(FOLDS):
            here = folds == fold
            keep[here] = survival[here] >= _limit(survival[~here & found.accepted], asked)
        limit = _limit(survival[found.accepted], asked)
        held.append(Point(found.recall(keep), limit, found.removed(keep), keep))
    return tuple(sorted(held, key=lambda point: (point.recall, -point.survival)))


def first_at(points: tuple[Point, ...], recall: float) -> Point | None:
    """The least demanding that keeps `recall`."""
    return next((point for point in points if point.recall >= recall), None)


def shared(edges: Array) -> Array:
    """(places, children): siblings sum to at most 1."""
    scaled: Array = edges / np.maximum(1.0, edges.sum(axis=-1, keepdims=True))
    return scaled


def _limit(accepted: Array, recall: float) -> float:
    """The largest that keeps `recall` of the `accepted` (nodes,)."""
    return float(np.quantile(accepted, 1 - recall, method="lower")) if len(accepted) else 0.0


def _maps(data: Recorded, seen: Hits, rank: int) -> Bilinear:
    known = data.known[seen][..., 1].astype(np.float32)
    return fit_bilinear(data.maps.only(seen), known, data.hits[seen], rank)


def _features(maps: Bilinear, places: bilinear_fit.Places) -> Array:
    score, level = maps.scores(places)
    return np.stack((score, np.broadcast_to(level[:, None], score.shape)), axis=2).astype(np.float64)


def _weights(features: Array, hits: Hits) -> Array:
    prior = np.zeros(features.shape[-1])
    prior[1] = 1.0  # what was known is right, and scores say nothing
    return fit_logistic(features.reshape(-1, len(prior)), hits.ravel(), prior)
