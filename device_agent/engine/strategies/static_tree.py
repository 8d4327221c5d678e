"""A tree of fixed shape (SpecInfer, Miao et al. 2023, arXiv 2305.09781): each node of depth d has the draft's
`draft_widths[d]` most probable tokens as children, one draft pass a level."""

from __future__ import annotations

from collections.abc import Sequence

from device_agent.engine.drafter import Drafter
from device_agent.engine.sampling import likely_tokens
from device_agent.engine.strategy import Proposal, Room
from device_agent.engine.tree import TokenTree
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer
from device_agent.protocol import EngineSpec


class StaticTree:
    def __init__(self, drafter: Drafter, widths: Sequence[int], probabilities: bool) -> None:
        self._drafter = drafter
        self._widths = widths
        self._probabilities = probabilities

    def begin(self, prompt: Sequence[int]) -> None:
        self._drafter.begin(prompt)

    def propose(self, root: int, room: Room) -> Proposal:
        tree, level, passes = TokenTree(root), [0], 0
        for width in self._widths[: max(0, room.depth)]:
            level = level[: max(0, self._drafter.room)]
            left = room.nodes - (len(tree) - 1)
            if not level or left <= 0:
                break
            level = self._grow(tree, level, width, left)
            passes += 1
        return Proposal(tree, draft_passes=passes, nodes_drafted=len(tree) - 1)

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        self._drafter.settle(tree, path)

    def _grow(self, tree: TokenTree, level: Sequence[int], width: int, left: int) -> list[int]:
        """One draft pass over `level`; returns the new level, of at most `left` nodes."""
        rows = self._drafter.expand(tree, level)
        children = [
            (self._drafter.token(column), node, prob)
            for node, row in zip(level, rows, strict=True)
            for column, prob in likely_tokens(row, width, self._probabilities, self._drafter.model.name)
        ]
        return [tree.add(token, node, prob) for token, node, prob in children[:left]]


def build(spec: EngineSpec, draft: Transformer | None) -> StaticTree:
    if draft is None:
        raise AgentFailure("bad_spec", "strategy 'static_tree' needs a draft model, and this job has none")
    if not spec.draft_widths or min(spec.draft_widths) < 1:
        raise AgentFailure("bad_spec", f"strategy 'static_tree' needs widths of at least 1, not {spec.draft_widths}")
    return StaticTree(Drafter(draft, spec.drafting.trim_vocabulary), spec.draft_widths, spec.trace_nodes)
