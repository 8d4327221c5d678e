"""The columns of a trial's Parquet files."""

from __future__ import annotations

from pathlib import Path

from device_agent.protocol import NodeTrace, RoundTrace
from orchestrator.tracking.traces import schema

PAGE = Path(__file__).parents[3] / "docs" / "traces.md"
ROUND = [
    "request",
    "round",
    "draft_passes",
    "nodes_drafted",
    "nodes_verified",
    "nodes_pruned",
    "accepted_tokens",
    "acceptance_length",
    "draft_s",
    "read_wait_s",
    "verify_compute_s",
    "projection_s",
    "round_s",
    "read_bytes",
    "rows_projected",
    "n_kv",
]
NODE = [
    "round",
    "depth",
    "rank",
    "token",
    "parent",
    "draft_prob",
    "edge_prob",
    "target_prob",
    "target_top",
    "accepted",
    "pruned_at_layer",
]


def test_rounds_and_nodes_have_every_column_that_a_replay_counts_on() -> None:
    assert set(ROUND) <= set(schema(RoundTrace).names)
    assert {"request", "node", *NODE} <= set(schema(NodeTrace).names)


def test_the_page_on_traces_names_every_column() -> None:
    told = PAGE.read_text(encoding="utf-8")
    columns = [*schema(RoundTrace).names, *schema(NodeTrace).names]
    assert [name for name in columns if f"`{name}`" not in told] == []
