"""Trials with results as an agent would return them; numbers are arguments, nothing is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from device_agent.protocol import (
    ENGINE_VERSION,
    EnergySpec,
    EngineSpec,
    ExactnessCount,
    JobResult,
    JobSpec,
    NodeTrace,
    RequestResult,
    RoundTrace,
    StorageSpec,
    to_json,
)
from orchestrator.entities import Device, Trial, TrialSpec, TrialState


def request(
    ids: Sequence[int], margins: Sequence[float] | None = None, count: ExactnessCount | None = None, **changes: Any
) -> RequestResult:
    """One request that emitted `ids`, by default with wide margins."""
    base = RequestResult(
        id="p0",
        prompt_tokens=5,
        output_ids=tuple(ids),
        margins=tuple(margins if margins is not None else [1.0] * len(ids)),
        stop_reason="max_new_tokens",
        ttft_s=1.5,
        tpot_s=0.5,
        round_s_p50=0.5,
        round_s_p95=0.6,
        top5_after_prompt=(),
        exactness=count,
    )
    return dataclasses.replace(base, **changes)


def exact(n: int, ties: int = 0, diverged: int = 0, at: int | None = None, tolerance: float = 0.01) -> ExactnessCount:
    return ExactnessCount(n, ties, diverged, at, tolerance)


def spec(trial_id: str, *, device: str = "oneplus12", strategy: str = "chain", **changes: Any) -> TrialSpec:
    """A flash trial capped at 500 MB/s; labels as the sweep writes them."""
    engine = EngineSpec(
        strategy=strategy,
        draft_k=5 if strategy == "chain" else 0,
        storage=StorageSpec(flash_bandwidth_mb_s=500.0),
    )
    job = JobSpec(
        version=1,
        attempt_id="",
        trial_id=trial_id,
        target_pack="t" * 64,
        draft_pack="d" * 64,
        engine=engine,
        prompts=(),
        max_new_tokens=32,
        stop_token_ids=(),
        energy=EnergySpec("model", 0.5, 1.0, 0.2),
        flash_profile_mb_s=3500.0,
    )
    labels = {
        "pair": "qwen-coder",
        "strategy": strategy,
        "storage": "flash",
        "workload": "demo",
        "reference_key": f"ref-{device}",
        "baseline_key": f"base-{device}",
        "overrides": f"engine={strategy}",
    }
    base = TrialSpec(
        trial_id=trial_id,
        device=device,
        repeat=0,
        config={"engine": {"strategy": strategy, "threads": 2}, "workload": {"name": "demo", "prompts": [{"id": "a"}]}},
        job=to_json(job),
        labels=labels,
    )
    return dataclasses.replace(base, **changes)


def result(
    trial_id: str,
    requests: Sequence[RequestResult] = (),
    metrics: dict[str, float] | None = None,
    tags: dict[str, str] | None = None,
    attempt_id: str = "",
) -> dict[str, Any]:
    """A successful JobResult as JSON."""
    return to_json(
        JobResult(
            version=1,
            attempt_id=attempt_id,
            trial_id=trial_id,
            engine_version=ENGINE_VERSION,
            ok=True,
            error=None,
            requests=tuple(requests),
            metrics={"tpot_s": 0.5, "ttft_s": 1.5, "tokens_per_s": 2.0} if metrics is None else metrics,
            tags={"energy_method": "model", "io_mode": "direct", "flash_cap_mb_s": "500"} if tags is None else tags,
            plan={},
        )
    )


def done(of: TrialSpec, outcome: dict[str, Any] | None = None, device: str | None = None) -> Trial:
    return Trial(
        spec=of,
        state=TrialState.DONE,
        attempts=1,
        charged_failures=0,
        device=device or of.device,
        result=outcome or result(of.trial_id),
        attempt_id=f"{of.trial_id}-1",
        attempt_wall_s=12.5,
    )


def phone(name: str = "oneplus12") -> Device:
    """A virtual phone of the farm."""
    return Device(
        name=name,
        address="tcp:127.0.0.1:1",
        kind="virtual",
        host="here",
        serial=name,
        root="/data/local/tmp/lever",
        facts={"soc": "SM8650", "model": "CPH2581", "runtime": "host-python", "simulated": ["battery"]},
    )


def node_traces() -> tuple[NodeTrace, ...]:
    """A root and two children, one of them the target's choice."""
    best = ((7, 0.75), (9, 0.125))
    return (
        NodeTrace("a", 0, 0, -1, 0, 0, 5, None, None, None, best, True),
        NodeTrace("a", 0, 1, 0, 1, 0, 7, 0.5, 0.625, 0.75, None, True),
        NodeTrace("a", 0, 2, 0, 1, 1, 8, 0.25, None, 0.0625, None, False),
    )


def round_trace(number: int, accepted: int = 3) -> RoundTrace:
    return RoundTrace(
        request="p0",
        round=number,
        draft_passes=5,
        nodes_drafted=5,
        nodes_verified=6,
        nodes_pruned=0,
        accepted_tokens=accepted,
        acceptance_length=accepted + 1,
        draft_s=0.2,
        read_wait_s=0.1,
        verify_compute_s=0.3,
        projection_s=0.02,
        round_s=0.6,
        read_bytes=750_000_000,
        rows_projected=accepted + 1,
        n_kv=40 + number,
    )
