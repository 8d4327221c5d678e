"""What the engine hands back for one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from device_agent.engine.tree import TokenTree
from device_agent.protocol import RequestResult, RoundTrace


@dataclass(frozen=True)
class VerifiedTree:
    """What one round verified."""

    tree: TokenTree
    path: tuple[int, ...]  # emitted nodes, the root first
    root_index: int  # of the root among the output tokens
    pruned_at: Mapping[int, int] = field(default_factory=dict)  # node dropped → layers it went through


@dataclass(frozen=True)
class RequestOutcome:
    """A request's result (exactness still None), its rounds, and when it decoded on the monotonic clock."""

    result: RequestResult
    rounds: tuple[RoundTrace, ...]
    decode_start_s: float  # time.perf_counter() at the first token
    decode_end_s: float  # at the last
    trees: tuple[VerifiedTree, ...] = ()  # one a round, if nodes are traced
