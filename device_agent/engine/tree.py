"""A tree of draft tokens below the last emitted one; a chain is a tree of one branch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from device_agent.kernels.base import Positions, Visible


class TokenTree:
    """Nodes in the order they were added, so parents precede children. Node 0 is the root, which is already emitted."""

    def __init__(self, root: int) -> None:
        self.tokens = [root]
        self.parents = [-1]
        self.depths = [0]
        self.probs: list[float | None] = [None]  # the draft's, given the parent; None where no model drafted
        self.edge_probs: list[float | None] = [None]  # calibrated to acceptance, given the parent's; None: not
        self._children: list[dict[int, int]] = [{}]

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, token: int, parent: int, prob: float | None = None, edge_prob: float | None = None) -> int:
        """Append a child of `parent`, less likely than those before it; a token that is there already is returned."""
        if (known := self.child(parent, token)) is not None:
            return known
        node = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.probs.append(prob)
        self.edge_probs.append(edge_prob)
        self._children.append({})
        self._children[parent][token] = node
        return node

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` that carries `token`."""
        return self._children[node].get(token)

    def children(self, node: int) -> Mapping[int, int]:
        """Token → child of `node`, the most likely first."""
        return self._children[node]

    def rank(self, node: int) -> int:
        """How many siblings came before it; 0 for the root."""
        return list(self._children[self.parents[node]]).index(self.tokens[node]) if node else 0

    def favourite_path(self) -> list[int]:
        """From the root along each node's first child: the drafter's most probable continuation."""
        path = [0]
        while children := self._children[path[-1]]:
            path.append(next(iter(children.values())))
        return path

    def ancestry(self) -> Visible:
        """(nodes, nodes): whether column is row or above it. Parents come first, so one sweep does."""
        seen = np.eye(len(self), dtype=np.bool_)
        for node, parent in enumerate(self.parents[1:], start=1):
            seen[node] |= seen[parent]
        return seen

    def positions(self, past: int) -> Positions:
        """Every node's position when the root comes after `past` tokens."""
        return past + np.array(self.depths, np.int32)
