"""Where a round's time and bytes went: differences of the models' running counters."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from device_agent.engine.strategy import Proposal
from device_agent.model.transformer import Transformer
from device_agent.protocol import RoundTrace


@dataclass(frozen=True)
class Reading:
    """The models' counters at one moment."""

    time_s: float
    read_wait_s: float
    read_bytes: int
    compute_s: float
    projection_s: float
    rows_projected: int
    draft_tokens: int
    draft_rows: int


def read_counters(target: Transformer, draft: Transformer | None = None) -> Reading:
    source, counters = target.source, target.counters
    return Reading(
        perf_counter(),
        source.read_wait_s,
        source.read_bytes,
        counters.compute_s,
        counters.projection_s,
        counters.rows_projected,
        draft.counters.tokens if draft else 0,
        draft.counters.rows_projected if draft else 0,
    )


@dataclass(frozen=True)
class RoundSpan:
    """A round between two emissions."""

    start: Reading
    drafted_s: float  # perf_counter() when the proposal stood
    end: Reading


def trace_round(
    span: RoundSpan, name: tuple[str, int], proposal: Proposal, pruned: int, accepted: int, n_kv: int
) -> RoundTrace:
    """`name`: (request, round); `pruned`: nodes dropped between layers; `accepted`: draft tokens kept; `n_kv`: KV slots
    in use during verification."""
    start, end = span.start, span.end
    return RoundTrace(
        request=name[0],
        round=name[1],
        draft_passes=proposal.draft_passes,
        nodes_drafted=proposal.nodes_drafted,
        nodes_verified=len(proposal.tree),
        nodes_pruned=pruned,
        accepted_tokens=accepted,
        acceptance_length=accepted + 1,
        draft_s=span.drafted_s - start.time_s,
        read_wait_s=end.read_wait_s - start.read_wait_s,
        verify_compute_s=end.compute_s - start.compute_s,
        projection_s=end.projection_s - start.projection_s,
        round_s=end.time_s - start.time_s,
        read_bytes=end.read_bytes - start.read_bytes,
        rows_projected=end.rows_projected - start.rows_projected,
        n_kv=n_kv,
        draft_tokens=end.draft_tokens - start.draft_tokens,
        draft_rows=end.draft_rows - start.draft_rows,
        pruning=proposal.pruning,
    )
