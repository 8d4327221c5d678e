"""Edge-conditional calibration: how likely the target chooses a draft token, given that its parent was accepted.

A logistic model on the draft's probability, the token's rank among its siblings, its depth and the mass that the
draft left outside the siblings. It starts from what was calibrated for the pair, or from a general prior, and follows
the trial at hand by online Newton steps with forgetting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from device_agent.engine.growth import Array
from device_agent.protocol import EdgeCalibration

Hits = np.ndarray[Any, np.dtype[np.bool_]]

FORGETTING = 0.99  # weight of the past after each node whose outcome is known
TRUST = 40.0  # how many edges' worth of evidence the starting weights are
LEAST, MOST = 1e-5, 0.999  # draft probabilities are clipped to this


def edge_features(probs: Sequence[float], depth: int) -> Array:
    """(siblings, 5): of the children at `depth` with draft probabilities `probs`, most probable first."""
    p = np.clip(np.asarray(probs, np.float64), LEAST, MOST)
    ranks = np.arange(1, len(p) + 1)
    outside = max(0.0, 1.0 - float(np.sum(probs)))
    one = np.ones(len(p))
    return np.column_stack((one, np.log(p / (1 - p)), np.log(ranks), np.log1p(depth) * one, outside * one))


class EdgeModel:
    """One trial's model."""

    def __init__(self, calibration: EdgeCalibration) -> None:
        self.weights: Array = np.array(calibration.weights, np.float64)
        self._evidence: Array = TRUST * np.eye(len(self.weights)) * 0.25

    def edges(self, features: Array) -> Array:
        """Acceptance probabilities of siblings with `features` (siblings, 5): their sum is at most 1."""
        found = _sigmoid(features @ self.weights)
        return found / max(1.0, float(found.sum()))

    def observe(self, features: Array, hits: Hits) -> None:
        """The target chose among siblings: `hits` (siblings,) has at most one True."""
        expected = _sigmoid(features @ self.weights)
        spread = np.maximum(expected * (1 - expected), 1e-3)
        self._evidence = FORGETTING * self._evidence + features.T @ (features * spread[:, None])
        self.weights = self.weights + np.linalg.solve(self._evidence, features.T @ (hits - expected))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))
