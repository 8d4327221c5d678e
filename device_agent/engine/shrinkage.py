"""How much of a tree is expected to be left after the layers where nodes are dropped, and what passes cost then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from device_agent.engine.costs import CostCurve
from device_agent.engine.growth import Array
from device_agent.engine.tree_pruner import Passed

MEMORY = 0.9  # weight of the past after each round that was pruned


class Shrinkage:
    """`left`: by layer, the share of a tree's draft tokens that went on in recent rounds."""

    def __init__(self, left: Mapping[int, float], n_layers: int) -> None:
        self.left = dict(sorted(left.items()))
        self._n_layers = n_layers

    def seconds(self, curve: CostCurve, tokens: Array, n_kv: int) -> Array:
        """Of passes over `tokens` (k,) at first."""
        shares = [1.0, *self.left.values()]
        spans = zip(self._spans(self.left), shares, strict=True)
        parts = [span * curve.seconds(1 + (tokens - 1) * share, n_kv) for span, share in spans]
        found: Array = np.sum(parts, axis=0)
        return found

    def whole_s(self, curve: CostCurve, seconds: float, tokens: int, passed: Sequence[Passed]) -> float:
        """What a pass over `tokens` that took `seconds` would have taken had nothing gone."""
        if not passed or passed[-1].after == tokens:
            return seconds
        left = curve.seconds(np.array([float(tokens), *(float(one.after) for one in passed)]))
        spans = list(self._spans([one.layer for one in passed]))
        return seconds * float(left[0] / (left @ np.array(spans)))

    def observe(self, tokens: int, passed: Sequence[Passed]) -> None:
        """A round of `tokens` was pruned."""
        for one in passed if tokens > 1 else ():
            self.left[one.layer] += (1 - MEMORY) * ((one.after - 1) / (tokens - 1) - self.left[one.layer])

    def _spans(self, layers: Sequence[int] | Mapping[int, float]) -> Iterator[float]:
        """Shares of all layers before, between and after `layers`."""
        return ((stop - start) / self._n_layers for start, stop in pairwise([0, *layers, self._n_layers]))
