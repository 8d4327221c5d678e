"""Which nodes to drop between layers: those whose gain is worth less than what computing on costs, and are unlikely."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from device_agent.engine.growth import Array
from device_agent.engine.predictor import Predictor
from device_agent.engine.tree import TokenTree
from device_agent.kernels.base import Floats
from device_agent.model.output_rows import OutputTable

Price = Callable[[Array], Array]  # tokens (k,) that the remaining layers run over → what such rounds cost, in tokens


@dataclass(frozen=True)
class Passed:
    """What a layer let through."""

    layer: int
    after: int  # tokens, the root included


def losing(survival: Array, limit: float, price: Price) -> list[int]:
    """Rows of `survival` (n,) whose going is worth most; the root's row 0 never goes.

    A node offers the gain of all that hangs on it: dropping the m least likely nodes loses the sum of their survivals
    (a child's is at most its parent's, so with a node goes all below it) and saves the price of m tokens in the layers
    that remain. Only nodes whose survival is below `limit` may go. Where computing on costs nothing, nothing goes.
    """
    order = survival[1:].argsort(kind="stable") + 1
    unlikely = order[survival[order] < limit]
    lost = np.concatenate(([0.0], survival[unlikely].cumsum()))
    worth = -lost - price(len(survival) - np.arange(len(unlikely) + 1.0))
    found: list[int] = unlikely[: int(worth.argmax())].tolist()
    return found


@dataclass
class TreePruner:
    """Implements pruning.Pruner for one round."""

    predictors: Mapping[int, Predictor]  # by layer
    limits: Mapping[int, float]  # of survival, by layer
    price: Callable[[int, int], Price]  # (layer, tokens that the layers before ran over) → of those that remain
    output: OutputTable
    passed: list[Passed] = field(default_factory=list)
    seconds: float = 0.0  # that deciding took

    @property
    def layers(self) -> list[int]:
        return sorted(self.predictors)

    def drop(self, tree: TokenTree, nodes: Sequence[int], layer: int, states: Floats) -> list[int]:
        started = perf_counter()
        survival = self.predictors[layer].survival(tree, nodes, states, self.output)
        rows = losing(survival, self.limits[layer], self.price(layer, len(nodes)))
        self.passed.append(Passed(layer, len(nodes) - len(rows)))
        self.seconds += perf_counter() - started
        return [nodes[row] for row in rows]
