"""Replaying recorded places as rounds that verify trees: which nodes they hold, and what pruning would do to them.

A tree holds each drafted token whose probability of being accepted, as known beforehand, is at least `least`, down to
`depth`. Along the emitted text a round goes on while the target's choice is in the tree. What hangs below a token that
was wrong is not in the text: it is taken to be as much as trees hold on average below a token of that probability, and
to go only with that token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Hits = np.ndarray[Any, np.dtype[np.bool_]]
Indices = np.ndarray[Any, np.dtype[np.int64]]
Below = Callable[[float, int], tuple[float, float]]
"""(probability of a node, levels that are left below it) → expected nodes there, and levels that they fill."""

GRID = 24  # probabilities down to the least at which expected sizes are kept
SAMPLE = 400  # places that they are averaged over


@dataclass(frozen=True)
class Shape:
    """Of trees."""

    least: float  # probability of a node's being accepted
    depth: int


@dataclass(frozen=True)
class Places:
    """In the order of their texts; children are the tokens drafted there."""

    known: Array  # (places, children): probability of being chosen, as known beforehand
    predicted: Array  # the same, as a predictor has it
    hits: Hits  # (places, children): what the target chose
    begins: Hits  # (places,): where a text begins


@dataclass(frozen=True)
class Replayed:
    """Nodes of the trees below the root."""

    round_of: Indices  # (nodes,): number of the round
    place: Indices  # (nodes,): where its parent is
    accepted: Hits  # (nodes,)
    prior: Array  # (nodes,): probability of being accepted, as known beforehand
    survival: Array  # (nodes,): the same, as predicted
    weight: Array  # (nodes,): 1, or of a wrong node all that goes with it
    deepest: Array  # (nodes,): level that it or what hangs below it reaches; 1 below the root
    rounds: int

    def removed(self, keep: Hits) -> float:
        """Share of wrong nodes that are not kept."""
        wrong = self.weight * ~self.accepted
        return float((wrong * ~keep).sum() / max(1.0, wrong.sum()))

    def recall(self, keep: Hits) -> float:
        return float(keep[self.accepted].mean()) if self.accepted.any() else 1.0


def replay(places: Places, shape: Shape, below: Below | None = None) -> Replayed:
    below = below or subtree_size(places.known, shape)
    rows: list[tuple[float, ...]] = []
    number, level, path = -1, 0, (0.0, 0.0)
    for place in range(len(places.known)):
        if places.begins[place] or not level:
            number, level, path = number + 1, 1, (1.0, 1.0)
        known, predicted = path[0] * places.known[place], path[1] * places.predicted[place]
        goes_on = False
        for child in np.flatnonzero(known >= shape.least).tolist():
            if places.hits[place, child]:
                goes_on, path = level < shape.depth, (float(known[child]), float(predicted[child]))
                rows.append((number, place, 1, known[child], predicted[child], 1, level))
            else:
                more, levels = below(float(known[child]), shape.depth - level)
                rows.append((number, place, 0, known[child], predicted[child], 1 + more, level + levels))
        level = level + 1 if goes_on else 0
    round_of, at, accepted, *rest = np.array(rows, np.float64).reshape(-1, 7).T
    prior, survival, weight, deepest = rest
    places_of = round_of.astype(np.int64), at.astype(np.int64)
    return Replayed(*places_of, accepted > 0, prior, survival, weight, deepest, number + 1)


def subtree_size(known: Array, shape: Shape) -> Below:
    """Expected by what a sample of places says of children."""
    sample = known[np.linspace(0, len(known) - 1, min(SAMPLE, len(known))).astype(int)]
    grid = np.geomspace(shape.least, 1.0, GRID)
    children = grid[:, None, None] * sample
    held = children >= shape.least
    sizes, fills = [np.zeros(GRID)], [np.zeros(GRID)]
    for _ in range(shape.depth):
        sizes.append((held * (1 + np.interp(children, grid, sizes[-1]))).sum(axis=(1, 2)) / len(sample))
        fills.append((held * (1 + np.interp(children, grid, fills[-1]))).max(axis=2).mean(axis=1))

    def below(value: float, levels: int) -> tuple[float, float]:
        return float(np.interp(value, grid, sizes[levels])), float(np.interp(value, grid, fills[levels]))

    return below


@dataclass(frozen=True)
class Costs:
    """Of a machine."""

    draft_s: Callable[[Array], Array]  # of a draft pass over that many tokens, its projection included
    verify_s: Callable[[Array], Array]  # of all layers of the target over that many tokens
    project_s: float  # of the target's output, for each token emitted
    read_s: float = 0.0  # of a round's layers, meanwhile the rest goes on
    spent: Callable[[Array, Array], Array] = lambda _busy_s, seconds: seconds  # joules, for instance, of each round


def plain_rate(costs: Costs) -> float:
    """As `rate`, nothing drafted."""
    busy_s = costs.verify_s(np.ones(1)) + costs.project_s
    return float(1 / costs.spent(busy_s, np.maximum(busy_s, costs.read_s))[0])


def rate(found: Replayed, costs: Costs, keep: Hits, done: float) -> float:
    """Tokens per second (or what is spent) when nodes outside `keep` (nodes,) go after a share `done` of the layers.

    A level of the tree takes a draft pass, over as many tokens as levels hold on average.
    """

    def per_round(weights: Array) -> Array:
        return np.bincount(found.round_of, weights, found.rounds).astype(np.float64)

    whole, left = per_round(found.weight), per_round(found.weight * keep)
    emitted = 1 + per_round((found.accepted & keep).astype(np.float64))
    passes = np.ones(found.rounds)
    np.maximum.at(passes, found.round_of, found.deepest)
    drafted = passes * costs.draft_s(np.maximum(1.0, whole / passes))
    computed = done * costs.verify_s(1 + whole) + (1 - done) * costs.verify_s(1 + left)
    busy_s = drafted + computed + emitted * costs.project_s
    return float(emitted.sum() / costs.spent(busy_s, np.maximum(busy_s, costs.read_s)).sum())
