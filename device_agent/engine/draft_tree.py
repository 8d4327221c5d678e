"""A draft tree while it grows: the candidates' probabilities, their tokens, and what the draft model expanded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from device_agent.engine.drafter import Drafter
from device_agent.engine.edges import EdgeModel, edge_features
from device_agent.engine.growth import Array, Candidates
from device_agent.engine.tree import TokenTree

CHILDREN = 6  # most probable tokens after an expanded node that become candidates


class DraftTree:
    """Candidates are numbered as growth.Candidates numbers them; the root is 0."""

    def __init__(self, root: int) -> None:
        self.candidates = Candidates()
        self.expanded = TokenTree(root)  # the nodes that the draft model has KV for
        self._tokens = [root]
        self._probs: list[float | None] = [None]
        self._edges: list[float | None] = [None]
        self._at = {0: 0}  # candidate → node of `expanded`
        self._children: dict[int, range] = {}
        self._features: dict[int, Array] = {}

    @property
    def drafted(self) -> int:
        return len(self._tokens) - 1

    def expand(self, drafter: Drafter, model: EdgeModel, leaves: Sequence[int]) -> list[Array]:
        """One draft pass over `leaves`; returns the edge probabilities of each one's children, most likely first."""
        nodes = [self._node(leaf) for leaf in leaves]
        rows = drafter.likely(self.expanded, nodes, CHILDREN)
        return [self._reveal(model, leaf, row) for leaf, row in zip(leaves, rows, strict=True)]

    def verified(self, size: int) -> TokenTree:
        """The root and the `size − 1` most valuable candidates."""
        tree, nodes = TokenTree(self._tokens[0]), {0: 0}
        for index in self.candidates.ranked()[: size - 1]:
            parent = nodes[self.candidates.parents[index]]
            nodes[index] = tree.add(self._tokens[index], parent, self._probs[index], self._edges[index])
        return tree

    def settle(self, drafter: Drafter, tokens: Sequence[int]) -> None:
        """The target accepted `tokens` below the root."""
        path = [0]
        for token in tokens:
            path.append(self.expanded.add(token, path[-1]))
        drafter.settle(self.expanded, path)

    def learn(self, model: EdgeModel, chosen: Sequence[int]) -> None:
        """The target chose these tokens after the root, one below the other: what that says of each node's children."""
        node: int | None = 0
        for token in chosen:
            if node is None or node not in self._children:
                return
            children = self._children[node]
            hits = np.array([self._tokens[child] == token for child in children])
            model.observe(self._features[node], hits)
            node = children[int(hits.argmax())] if hits.any() else None

    def _node(self, candidate: int) -> int:
        if candidate not in self._at:
            parent = self._at[self.candidates.parents[candidate]]
            self._at[candidate] = self.expanded.add(self._tokens[candidate], parent)
        return self._at[candidate]

    def _reveal(self, model: EdgeModel, leaf: int, row: Sequence[tuple[int, float]]) -> Array:
        probs = [prob for _, prob in row]
        features = self._features[leaf] = edge_features(probs, self.candidates.depths[leaf] + 1)
        edges = model.edges(features)
        self._children[leaf] = self.candidates.reveal(leaf, edges.tolist())
        self._tokens += [token for token, _ in row]
        self._probs += probs
        self._edges += edges.tolist()
        return edges
