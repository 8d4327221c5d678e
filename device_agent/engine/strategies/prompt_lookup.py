"""Drafts without a model: what followed the last few tokens when they came before in prompt or output (Saxena 2023)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from device_agent.engine.strategy import Proposal, Room
from device_agent.engine.tree import TokenTree
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer
from device_agent.protocol import EngineSpec


class PromptLookup:
    """Keeps where each n-gram of up to `longest` tokens was last followed by something."""

    def __init__(self, longest: int, k: int) -> None:
        self._longest = longest
        self._k = k
        self._text: list[int] = []
        self._followed: dict[tuple[int, ...], int] = {}  # n-gram → position of the token after it

    def begin(self, prompt: Sequence[int]) -> None:
        self._text.clear()
        self._followed.clear()
        self._read(prompt)

    def propose(self, root: int, room: Room) -> Proposal:
        self._read([root])
        start, length = self._found(), max(0, min(self._k, room.depth, room.nodes))
        draft = self._text[start : start + length] if start is not None else []
        tree, node = TokenTree(root), 0
        for token in draft:
            node = tree.add(token, node)
        return Proposal(tree, nodes_drafted=len(draft))

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        self._read(tree.tokens[node] for node in path[1:])

    def _read(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            for length in range(1, min(self._longest, len(self._text)) + 1):
                self._followed[tuple(self._text[-length:])] = len(self._text)
            self._text.append(token)

    def _found(self) -> int | None:
        """Where to copy from: after the latest earlier place of the longest ending that has one."""
        endings = (tuple(self._text[-length:]) for length in range(min(self._longest, len(self._text)), 0, -1))
        return next((self._followed[ending] for ending in endings if ending in self._followed), None)


def build(spec: EngineSpec, draft: Transformer | None) -> PromptLookup:  # noqa: ARG001  # drafts without a model
    if spec.draft_k < 1 or spec.draft_ngram < 1:
        what = f"draft_k={spec.draft_k} and draft_ngram={spec.draft_ngram}"
        raise AgentFailure("bad_spec", f"strategy 'prompt_lookup' needs both of {what} to be at least 1")
    return PromptLookup(spec.draft_ngram, spec.draft_k)
