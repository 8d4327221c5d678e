"""What the target's states between two layers say of a tree: how likely each node is to be accepted.

For a node u and its child c a low-rank bilinear form scores u's state against c's row of the output projection, and
only against the rows of the tree's own tokens. A logistic model joins score and level of the state with what was known
before: the edge's calibrated probability, its rank and its depth. Siblings share at most 1; a node survives if all
edges above it do.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from device_agent.engine.growth import Array
from device_agent.engine.tree import TokenTree
from device_agent.failure import AgentFailure
from device_agent.kernels.base import Floats
from device_agent.model.output_rows import OutputTable
from device_agent.protocol import LayerPredictor, RecallPoint

LEAST = 1e-5  # probabilities are clipped to this and its complement


def normed(states: Floats) -> Floats:
    """`states` (n, d_model), each scaled to a mean square of 1."""
    scaled: Floats = states / np.sqrt(np.mean(states * states, axis=1, keepdims=True) + np.float32(1e-6))
    return scaled


def known_features(probs: Array, ranks: Array, depths: Array) -> Array:
    """(edges, 4): what is known of edges (edges,) before the target has seen them; ranks and depths from 1 on."""
    p = np.clip(probs, LEAST, 1 - LEAST)
    return np.column_stack((np.ones(len(p)), np.log(p / (1 - p)), np.log(ranks), np.log1p(depths)))


class Predictor:
    """Of one layer."""

    def __init__(self, known: LayerPredictor, d_model: int) -> None:
        """Raises AgentFailure bad_spec for maps of another model."""
        maps = np.frombuffer(base64.b64decode(known.maps), np.float16).astype(np.float32)
        if maps.size != (2 * known.rank + 1) * d_model:
            shape = f"2·{known.rank} + 1 rows of {d_model}"
            raise AgentFailure("bad_spec", f"the predictor of layer {known.layer} has {maps.size} numbers, not {shape}")
        maps = maps.reshape(-1, d_model)
        self.layer = known.layer
        self._of_state, self._of_row = maps[: known.rank].T, maps[known.rank : 2 * known.rank].T
        self._level = maps[-1]
        self._weights = np.array(known.weights)

    def survival(self, tree: TokenTree, nodes: Sequence[int], states: Floats, output: OutputTable) -> Array:
        """(len(nodes),): of `nodes`, parents first and the root before all, with `states` (len(nodes), d_model)."""
        found = np.ones(len(nodes))
        at = {node: row for row, node in enumerate(nodes)}
        above = np.array([at[tree.parents[node]] for node in nodes[1:]], np.int64)
        if not len(above):
            return found
        x = normed(states)
        rows = output.rows([tree.tokens[node] for node in nodes[1:]])
        score = np.einsum("er,er->e", (x @ self._of_state)[above], rows @ self._of_row)
        edges = self._edges(tree, nodes[1:], score, (x @ self._level)[above])
        shared = np.maximum(1.0, np.bincount(above, edges, len(nodes)))
        for row, (parent, edge) in enumerate(zip(above.tolist(), edges.tolist(), strict=True), start=1):
            found[row] = found[parent] * edge / shared[parent]
        return found

    def _edges(self, tree: TokenTree, nodes: Sequence[int], score: Floats, level: Floats) -> Array:
        probs = np.array([_probability(tree, node) for node in nodes])
        ranks = np.array([1.0 + tree.rank(node) for node in nodes])
        depths = np.array([float(tree.depths[node]) for node in nodes])
        z = np.column_stack((known_features(probs, ranks, depths), score, level)) @ self._weights
        found: Array = 1 / (1 + np.exp(-np.clip(z, -30, 30)))
        return found


def _probability(tree: TokenTree, node: int) -> float:
    """Calibrated, or the draft's own; a half where nobody said any."""
    known = tree.edge_probs[node] if tree.edge_probs[node] is not None else tree.probs[node]
    return 0.5 if known is None else known


def point_at(known: LayerPredictor, recall: float) -> RecallPoint | None:
    """The least demanding point that keeps at least `recall`; None if none does."""
    return next((point for point in known.points if point.recall >= recall), None)
