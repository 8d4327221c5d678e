"""What a job writes while it runs: lines of `events.jsonl`, `rounds.jsonl` and `nodes.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class AgentEvent:
    """A line of events.jsonl. kinds: started, loaded, warmed_up, request_done, progress (with the output ids that are
    new since the one before), checking, done, failed."""

    kind: str
    time_s: float  # unix time on the phone
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundTrace:
    """One verification round (ENGINE §10); times in seconds, sizes in bytes."""

    request: str
    round: int
    draft_passes: int
    nodes_drafted: int
    nodes_verified: int  # tokens of the tree that the target checked, the root included
    nodes_pruned: int
    accepted_tokens: int
    acceptance_length: int
    draft_s: float
    read_wait_s: float
    verify_compute_s: float
    projection_s: float
    round_s: float
    read_bytes: int
    rows_projected: int
    n_kv: int
    draft_tokens: int = 0  # that the draft passes read, those accepted before included
    draft_rows: int = 0  # of them projected
    pruning: str = "off"  # off | hidden: reading takes longer than computing | unprofitable | tried


@dataclass(frozen=True)
class NodeTrace:
    """One token that a round verified, the root included (ENGINE §10).

    Probabilities are plain softmax, before temperature and filters. The target's come from the exactness check, so
    that they cost nothing while timed: they are known along the emitted text, and null elsewhere or without a check.
    """

    request: str
    round: int
    node: int  # within the round; 0 is the root
    parent: int  # node; -1 for the root
    depth: int
    rank: int  # among its siblings, as the drafter ordered them
    token: int
    draft_prob: float | None  # given the parent; null for what no model drafted
    edge_prob: float | None  # the same, calibrated to acceptance
    target_prob: float | None  # the target's, of this token after its parent
    target_top: tuple[tuple[int, float], ...] | None  # the target's best few (token, probability) after this node
    accepted: bool  # emitted
    pruned_at_layer: int | None = None  # layers that it went through before it was dropped; null: all of them
