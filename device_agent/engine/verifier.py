"""The target model: reads prompts, and says how far it agrees with a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from device_agent.engine.kv_cache import KvCache
from device_agent.engine.pruning import Pruner, TreeGate
from device_agent.engine.sampling import Choice
from device_agent.engine.tree import TokenTree
from device_agent.kernels.base import Floats
from device_agent.model.transformer import TokenBatch, Transformer, causal_batch

BLOCK = 8  # rows projected at once along the favourite path: in bulk they are cheap, beyond a miss they are wasted

Choose = Callable[[Floats, int], Choice]  # logits (n_vocab,) after a node, and the node's depth


@dataclass(frozen=True)
class Verdict:
    """The target's walk through a tree: `choices[i]` is what it chose after node `path[i]`."""

    path: tuple[int, ...]  # from the root down; each choice but the last is the next node's token
    choices: tuple[Choice, ...]
    pruned_at: Mapping[int, int] = field(default_factory=dict)  # node that was dropped → layers it went through


class Verifier:
    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.cache = KvCache(model)

    def begin(self, prompt: Sequence[int]) -> Floats:
        """Read the prompt in one pass; logits (n_vocab,) after it, until the next call."""
        self.cache.truncate(0)
        states = self.model.forward(causal_batch(prompt))
        self.cache.accept(range(len(prompt)))
        logits: Floats = self.model.project(states[-1:])[0]
        return logits

    def verify(self, tree: TokenTree, choose: Choose, pruner: Pruner | None = None) -> Verdict:
        """One pass over the whole tree, then a walk down; the KV of the path stays, the rest is dropped."""
        past, nodes = self.cache.length, range(len(tree))
        visible = np.ones((len(tree), past + len(tree)), np.bool_)
        visible[:, past:] = tree.ancestry()
        ids = np.array(tree.tokens, np.int32)
        batch = TokenBatch(ids, tree.positions(past), self.cache.scratch(nodes), visible)
        if pruner is None:
            verdict = self._walk(tree, nodes, self.model.forward(batch), choose)
        else:
            gate = TreeGate(tree, pruner)
            states = self.model.forward(batch, gate)
            verdict = replace(self._walk(tree, gate.nodes, states, choose), pruned_at=gate.pruned_at)
        self.cache.accept(verdict.path)
        return verdict

    def _walk(self, tree: TokenTree, nodes: Sequence[int], states: Floats, choose: Choose) -> Verdict:
        """Follow the target's choices as long as they are among `nodes`, whose states (len(nodes), d_model) are here.

        Projects the drafter's favourite path by blocks, other nodes when reached.
        """
        at = {node: row for row, node in enumerate(nodes)}
        favourites = [node for node in tree.favourite_path() if node in at]
        rows: dict[int, Floats] = {}
        path: list[int] = []
        choices: list[Choice] = []
        node: int | None = 0
        while node is not None:
            if node not in rows:  # a walk that left the favourite path never comes back to it
                depth = tree.depths[node]
                wanted = favourites[depth : depth + BLOCK] if node in favourites else [node]
                rows = dict(zip(wanted, self.model.project(states[[at[one] for one in wanted]]), strict=True))
            path.append(node)
            choices.append(choose(rows[node], tree.depths[node]))
            child = tree.child(node, choices[-1].token)
            node = child if child in at else None
        return Verdict(tuple(path), tuple(choices))
