"""The draft model: expands nodes of a tree and keeps the KV of those that are accepted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from device_agent.engine.kv_cache import KvCache
from device_agent.engine.tree import TokenTree
from device_agent.kernels.base import Floats, Visible
from device_agent.model.transformer import TokenBatch, Transformer, causal_batch


class Drafter:
    """Accepted tokens without draft KV wait in `_pending` and ride along in the next pass."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.cache = KvCache(model)
        self._pending: list[int] = []
        self._offsets: dict[int, int] = {}  # expanded node → its scratch slot

    @property
    def room(self) -> int:
        """Nodes that still can be expanded in this round."""
        return self.cache.room - len(self._pending) - len(self._offsets)

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget the last request and read the prompt."""
        self.cache.truncate(0)
        self._pending.clear()
        self._offsets.clear()
        self.model.forward(causal_batch(prompt))
        self.cache.accept(range(len(prompt)))

    def expand(self, tree: TokenTree, nodes: Sequence[int]) -> Floats:
        """Logits (len(nodes), n_vocab) after each of `nodes`, whose ancestors are expanded or among them, before them.

        One pass. The array holds until the next call.
        """
        states = self.model.forward(self._batch(tree, nodes))
        return self.model.project(states[-len(nodes) :])

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        """The target accepted `path` (from the root down): keep its KV as far as it was expanded."""
        kept = [self._offsets[node] for node in path if node in self._offsets]
        self.cache.accept(kept)
        self._pending += [tree.tokens[node] for node in path[len(kept) :]]
        self._offsets.clear()

    def _batch(self, tree: TokenTree, nodes: Sequence[int]) -> TokenBatch:
        """The waiting tokens, which are accepted thereby, and then `nodes` in fresh scratch slots."""
        waiting, past = len(self._pending), self.cache.length
        self._offsets |= {node: len(self._offsets) + i for i, node in enumerate(nodes)}
        visible = self._visible(tree, nodes)
        ids = np.array([*self._pending, *(tree.tokens[node] for node in nodes)], np.int32)
        positions = [*range(past, past + waiting), *(past + waiting + tree.depths[node] for node in nodes)]
        slots = self.cache.scratch([*range(waiting), *(waiting + self._offsets[node] for node in nodes)])
        self.cache.accept(range(waiting))
        self._pending.clear()
        return TokenBatch(ids, np.array(positions, np.int32), slots, visible)

    def _visible(self, tree: TokenTree, nodes: Sequence[int]) -> Visible:
        waiting, past = len(self._pending), self.cache.length
        visible = np.zeros((waiting + len(nodes), past + waiting + len(self._offsets)), np.bool_)
        visible[:, :past] = True
        visible[:waiting, past : past + waiting] = np.tri(waiting, dtype=np.bool_)
        visible[waiting:, past : past + waiting] = True
        ancestry = tree.ancestry()
        for node, offset in self._offsets.items():
            visible[waiting:, past + waiting + offset] = ancestry[list(nodes), node]
        return visible
