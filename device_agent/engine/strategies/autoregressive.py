"""Plain decoding, the baseline: every round verifies the last token alone."""

from __future__ import annotations

from collections.abc import Sequence

from device_agent.engine.strategy import Proposal, Room
from device_agent.engine.tree import TokenTree
from device_agent.model.transformer import Transformer
from device_agent.protocol import EngineSpec


class Autoregressive:
    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing to prepare."""

    def propose(self, root: int, room: Room) -> Proposal:  # noqa: ARG002  # nothing is drafted
        return Proposal(TokenTree(root))

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        """Nothing to keep."""


def build(spec: EngineSpec, draft: Transformer | None) -> Autoregressive:  # noqa: ARG001  # takes no setting
    return Autoregressive()
