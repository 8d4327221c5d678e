"""Dropping nodes of a tree between the target's layers: with its descendants, and never the root.

A node that is dropped is not checked any further. Should the target choose it nevertheless, the round ends there: what
was chosen is emitted all the same, so pruning can shorten a round but never change the text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from device_agent.engine.tree import TokenTree
from device_agent.kernels.base import Floats


class Pruner(Protocol):
    """Decides for one round; `layers` are numbers of layers after which it is asked, from 1 on."""

    @property
    def layers(self) -> Collection[int]: ...

    def drop(self, tree: TokenTree, nodes: Sequence[int], layer: int, states: Floats) -> Collection[int]:
        """Which of `nodes`, parents first, are to go; the rows of `states` are theirs after `layer` layers."""


class TreeGate:
    """Implements model.transformer.Gate for the nodes of a tree in order."""

    def __init__(self, tree: TokenTree, pruner: Pruner) -> None:
        self.layers = frozenset(pruner.layers)
        self.nodes = list(range(len(tree)))  # those that are left
        self.pruned_at: dict[int, int] = {}  # node → layers it went through
        self._tree = tree
        self._pruner = pruner

    def keep(self, layer: int, states: Floats) -> list[int]:
        gone = set(self._pruner.drop(self._tree, self.nodes, layer, states)) - {0}
        for node in self.nodes:  # parents first
            if self._tree.parents[node] in gone:
                gone.add(node)
        rows = [row for row, node in enumerate(self.nodes) if node not in gone]
        self.pruned_at |= dict.fromkeys(sorted(gone), layer)
        self.nodes = [self.nodes[row] for row in rows]
        return rows
