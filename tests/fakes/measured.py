"""Cells of the benchmark with made-up times."""

from __future__ import annotations

from typing import Any

from benchmarks.cell import Measured
from device_agent.protocol import ENGINE_VERSION, PROTOCOL_VERSION, JobResult, RequestResult, RoundTrace

CURVE = {"1": 0.1, "2": 0.15, "4": 0.25, "8": 0.4, "16": 0.7}


def measured(
    tpot_s: float = 0.1, label: str = "cell", rounds: tuple[RoundTrace, ...] = (), diverged: int = 0, **plan: Any
) -> Measured:
    """One prompt with eleven output tokens."""
    counts = {"exact_tokens": 10.0 - diverged, "tie_tokens": 1.0, "diverged_tokens": float(diverged)}
    curves = {f"{name}_s_by_tokens": CURVE for name in ("draft", "verify", "project")}
    result = JobResult(
        version=PROTOCOL_VERSION,
        attempt_id="",
        trial_id="",
        engine_version=ENGINE_VERSION,
        ok=True,
        error=None,
        requests=(request(tpot_s, 11),),
        metrics={**counts, "pipeline_efficiency": 0.9},
        tags={"exactness": "DIVERGED@3" if diverged else "exact 10/11, ties 1"},
        plan=curves | {"edge_weights": [0.0, 1.0, 0.0, 0.0, 0.0]} | plan,
    )
    return Measured(label, 0.5, result, rounds or (round_trace(),))


def request(tpot_s: float | None, tokens: int) -> RequestResult:
    return RequestResult(
        id="p",
        prompt_tokens=4,
        output_ids=tuple(range(tokens)),
        margins=(1.0,) * tokens,
        stop_reason="max_new_tokens",
        ttft_s=1.0,
        tpot_s=tpot_s,
        round_s_p50=None,
        round_s_p95=None,
        top5_after_prompt=(),
        exactness=None,
    )


def round_trace(**changes: Any) -> RoundTrace:
    """One of a second: a tree of eight, three of them accepted."""
    values: dict[str, Any] = {
        "request": "p",
        "round": 0,
        "draft_passes": 4,
        "nodes_drafted": 12,
        "nodes_verified": 8,
        "nodes_pruned": 0,
        "accepted_tokens": 3,
        "acceptance_length": 4,
        "draft_s": 0.5,
        "read_wait_s": 0.0,
        "verify_compute_s": 0.4,
        "projection_s": 0.1,
        "round_s": 1.0,
        "read_bytes": 5_000_000,
        "rows_projected": 4,
        "n_kv": 20,
    }
    return RoundTrace(**{**values, **changes})
