"""Whether a predictor earns its place: what pruning would do to the speed of the best trees, against the best without.

Both are chosen anew among shapes of trees. An oracle that drops exactly the wrong nodes, after the same layer, says how
much there is to be had at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from orchestrator.models.edge_fit import Array
from orchestrator.models.predictor_fit import Point, Recorded, first_at, points, replayed
from orchestrator.models.rounds_replay import Below, Costs, Hits, Replayed, Shape, plain_rate, rate

LEASTS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16)
SHAPES = tuple(Shape(least, depth) for least, depth in product(LEASTS, DEPTHS))
CLEARLY = 0.05  # more of the wrong nodes must go than by what was known beforehand
FASTER = 1.01  # than the best trees without pruning


@dataclass(frozen=True)
class Speed:
    """Of the best trees of their kind."""

    rate: float  # tokens per second, or per what the costs say is spent
    shape: Shape
    nodes: float  # below the root, a round


@dataclass(frozen=True)
class PruningWorth:
    """Of pruning after one layer."""

    layer: int
    plain: Speed  # nothing pruned
    pruned: Speed | None  # None: no limit keeps the recall
    oracle: Speed
    point: Point | None  # on the pruned trees
    known_point: Point | None  # the same trees, pruned by what was known beforehand

    @property
    def speedup(self) -> float:
        return self.pruned.rate / self.plain.rate if self.pruned else 0.0

    @property
    def headroom(self) -> float:
        return self.oracle.rate / self.plain.rate

    @property
    def useful(self) -> bool:
        known = self.known_point.removed if self.known_point else 0.0
        return self.point is not None and self.point.removed >= known + CLEARLY and self.speedup >= FASTER


@dataclass(frozen=True)
class Trees:
    """Rounds of trees of one shape, and limits that keep enough of what they accept."""

    shape: Shape
    rounds: Replayed
    point: Point | None
    known_point: Point | None

    def speed(self, costs: Costs, keep: Hits, done: float) -> Speed:
        nodes = float(self.rounds.weight.sum() / self.rounds.rounds)
        return Speed(rate(self.rounds, costs, keep, done), self.shape, nodes)


def all_trees(data: Recorded, predicted: Array, recall: float, below: Below | None = None) -> list[Trees]:
    """Of SHAPES. `below`: what hangs below wrong nodes, if it is not a tree."""
    return [_trees(data, predicted, recall, shape, below) for shape in SHAPES]


def pruning_worth(trees: Sequence[Trees], layer: int, done: float, costs: Costs) -> PruningWorth:
    """`done`: share of the layers up to `layer`."""
    undrafted = Speed(plain_rate(costs), Shape(1.0, 0), 0.0)
    plain = [one.speed(costs, np.ones(len(one.rounds.accepted), np.bool_), done) for one in trees]
    oracle = [one.speed(costs, one.rounds.accepted, done) for one in trees]
    pruned = [(one.speed(costs, one.point.keep, done), one) for one in trees if one.point]
    best = max(pruned, key=lambda found: found[0].rate, default=None)
    fastest = (max([undrafted, *speeds], key=lambda one: one.rate) for speeds in (plain, oracle))
    if best is None:
        return PruningWorth(layer, next(fastest), None, next(fastest), None, None)
    return PruningWorth(layer, next(fastest), best[0], next(fastest), best[1].point, best[1].known_point)


def _trees(data: Recorded, predicted: Array, recall: float, shape: Shape, below: Below | None) -> Trees:
    found = replayed(data, predicted, shape, below)
    point, known = (first_at(points(found, by, data.text), recall) for by in (found.survival, found.prior))
    return Trees(shape, found, point, known)
