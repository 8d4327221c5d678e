"""The draft model: expands nodes of a tree and keeps the KV of those that are accepted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from device_agent.engine.kv_cache import KvCache
from device_agent.engine.sampling import likely_tokens
from device_agent.engine.tree import TokenTree
from device_agent.kernels.base import Floats, Visible
from device_agent.model.transformer import TokenBatch, Transformer, causal_batch
from device_agent.model.trimmed_output import TrimmedOutput


class Drafter:
    """Accepted tokens without draft KV wait in `_pending` and ride along in the next pass."""

    def __init__(self, model: Transformer, trim: int = 0) -> None:
        """`trim`: tokens that can be drafted (model.trimmed_output); 0: all."""
        self.model = model
        self.output = TrimmedOutput(model.source, trim) if trim else None
        self.cache = KvCache(model)
        self._pending: list[int] = []
        self._offsets: dict[int, int] = {}  # expanded node → its scratch slot
        self._left_out = 0  # tokens of the text that have no KV and never will
        self._waited: Floats | None = None  # states of the tokens that waited for the last pass

    @property
    def waiting(self) -> tuple[int, ...]:
        """Accepted tokens that the next pass has to read first."""
        return tuple(self._pending)

    @property
    def room(self) -> int:
        """Nodes that still can be expanded in this round."""
        return self.cache.room - len(self._pending) - len(self._offsets)

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget the last request and read the prompt."""
        self._keep(prompt)
        self.cache.truncate(0)
        self._pending.clear()
        self._offsets.clear()
        self._left_out = 0
        self.model.forward(causal_batch(prompt))
        self.cache.accept(range(len(prompt)))

    def expand(self, tree: TokenTree, nodes: Sequence[int]) -> Floats:
        """Logits after each of `nodes`, whose ancestors are expanded or among them, before them.

        (len(nodes), n_vocab), or as many columns as tokens that can be drafted. One pass. Holds until the next call.
        """
        states = self.model.forward(self._batch(tree, nodes))
        self._waited = states[: -len(nodes)]
        return self.project(states[-len(nodes) :])

    def project(self, states: Floats) -> Floats:
        """Logits of `states` (n, d_model), as `expand` gives them."""
        return self.model.project_onto(states, self.output) if self.output else self.model.project(states)

    def likely(self, tree: TokenTree, nodes: Sequence[int], count: int) -> list[list[tuple[int, float]]]:
        """As `expand`, in one pass: the `count` most probable (token, probability) after each node, best first."""
        return self._likely(self.expand(tree, nodes), count)

    def _likely(self, logits: Floats, count: int) -> list[list[tuple[int, float]]]:
        rows = (likely_tokens(row, count, True, self.model.name) for row in logits)
        return [[(self.token(column), prob or 0.0) for column, prob in row] for row in rows]

    def would_have(self, count: int) -> list[list[tuple[int, float]]]:
        """As `likely`, after each of the tokens that waited for the last pass."""
        if self._waited is None or not len(self._waited):
            return []
        return self._likely(self.project(self._waited), count)

    def leave_out(self, most: int) -> None:
        """Have at most `most` tokens wait: of more, the first are left out of what the draft sees of the text.

        That costs acceptance until the request ends, and saves reading them.
        """
        surplus = max(0, len(self._pending) - most)
        del self._pending[:surplus]
        self._left_out += surplus

    def token(self, column: int) -> int:
        """What a column of the logits stands for."""
        return int(self.output.tokens[column]) if self.output else column

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        """The target accepted `path` (from the root down): keep its KV as far as it was expanded."""
        kept = [self._offsets[node] for node in path if node in self._offsets]
        self.cache.accept(kept)
        self._pending += [tree.tokens[node] for node in path[len(kept) :]]
        self._keep(tree.tokens[node] for node in path)
        self._offsets.clear()

    def _keep(self, tokens: Iterable[int]) -> None:
        if self.output:
            self.output.keep(tokens)

    def _batch(self, tree: TokenTree, nodes: Sequence[int]) -> TokenBatch:
        """The waiting tokens, which are accepted thereby, and then `nodes` in fresh scratch slots."""
        waiting, past = len(self._pending), self.cache.length
        self._offsets |= {node: len(self._offsets) + i for i, node in enumerate(nodes)}
        visible = self._visible(tree, nodes)
        ids = np.array([*self._pending, *(tree.tokens[node] for node in nodes)], np.int32)
        first = past + self._left_out
        positions = [*range(first, first + waiting), *(first + waiting + tree.depths[node] for node in nodes)]
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
        for row, node in enumerate(nodes, start=waiting):
            above = node
            while above >= 0:
                visible[row, past + waiting + self._offsets[above]] = True
                above = tree.parents[above]
        return visible
