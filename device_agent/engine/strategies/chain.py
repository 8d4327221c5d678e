"""Conventional speculative decoding (Leviathan et al. 2023, arXiv 2211.17192): k greedy draft tokens a round."""

from __future__ import annotations

from collections.abc import Sequence

from device_agent.engine.drafter import Drafter
from device_agent.engine.sampling import likely_tokens
from device_agent.engine.strategy import Proposal, Room
from device_agent.engine.tree import TokenTree
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer
from device_agent.protocol import EngineSpec


class Chain:
    def __init__(self, drafter: Drafter, k: int, probabilities: bool) -> None:
        self._drafter = drafter
        self._k = k
        self._probabilities = probabilities

    def begin(self, prompt: Sequence[int]) -> None:
        self._drafter.begin(prompt)

    def propose(self, root: int, room: Room) -> Proposal:
        tree, node = TokenTree(root), 0
        depth = max(0, min(self._k, room.depth, room.nodes, self._drafter.room))
        for _ in range(depth):
            logits = self._drafter.expand(tree, [node])
            column, prob = likely_tokens(logits[0], 1, self._probabilities, self._drafter.model.name)[0]
            node = tree.add(self._drafter.token(column), node, prob)
        return Proposal(tree, draft_passes=depth, nodes_drafted=depth)

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        self._drafter.settle(tree, path)


def build(spec: EngineSpec, draft: Transformer | None) -> Chain:
    if draft is None:
        raise AgentFailure("bad_spec", "strategy 'chain' needs a draft model, and this job has none")
    if spec.draft_k < 1:
        raise AgentFailure("bad_spec", f"strategy 'chain' drafts at least 1 token a round, not {spec.draft_k}")
    return Chain(Drafter(draft, spec.drafting.trim_vocabulary), spec.draft_k, spec.trace_nodes)
