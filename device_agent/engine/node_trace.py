"""The verified nodes of a request as rows of nodes.jsonl (ENGINE §10)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.sampling import log_sum_exp, top_tokens
from device_agent.kernels.base import Floats
from device_agent.protocol import NodeTrace

TOP = 5  # of the target's own best tokens after a node

Name = tuple[int, int]  # round, node


class NodeTracer:
    """Takes the target's probabilities from logits that a later pass computes anyway."""

    def __init__(self, outcome: RequestOutcome) -> None:
        self._request = outcome.result.id
        self._trees = outcome.trees
        self._at = {
            verified.root_index + depth: (number, node)
            for number, verified in enumerate(outcome.trees)
            for depth, node in enumerate(verified.path)
        }  # output token → its node
        self._top: dict[Name, tuple[tuple[int, float], ...]] = {}
        self._probs: dict[Name, float] = {}

    def seen(self, rows: Iterable[Floats]) -> Iterator[Floats]:
        """Passes through `rows`, logits (n_vocab,) where output tokens 0, 1, … were chosen, and notes what they say."""
        for index, row in enumerate(rows):
            if (name := self._at.get(index - 1)) is not None:
                self._note(name, row)
            yield row

    def traces(self) -> Iterator[NodeTrace]:
        for number, verified in enumerate(self._trees):
            tree, path = verified.tree, set(verified.path)
            for node in range(len(tree)):
                yield NodeTrace(
                    request=self._request,
                    round=number,
                    node=node,
                    parent=tree.parents[node],
                    depth=tree.depths[node],
                    rank=tree.rank(node),
                    token=tree.tokens[node],
                    draft_prob=tree.probs[node],
                    edge_prob=tree.edge_probs[node],
                    target_prob=self._probs.get((number, node)),
                    target_top=self._top.get((number, node)),
                    accepted=node in path,
                    pruned_at_layer=verified.pruned_at.get(node),
                )

    def _note(self, name: Name, row: Floats) -> None:
        number, node = name
        log_sum = log_sum_exp(row)
        self._top[name] = tuple((token, math.exp(logit - log_sum)) for token, logit in top_tokens(row, TOP))
        for token, child in self._trees[number].tree.children(node).items():
            self._probs[number, child] = math.exp(float(row[token]) - log_sum)
