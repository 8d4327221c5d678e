"""What a job ends with: `result.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from device_agent.protocol.calibrations import CostCalibration, EdgeTrace


@dataclass(frozen=True)
class ExactnessCount:
    """Teacher-forced check along one emitted text: every position's choice against the reference pass."""

    exact_tokens: int
    tie_tokens: int
    diverged_tokens: int
    diverged_at: int | None  # first diverged position, 0-based
    tie_tolerance: float  # logit margin, measured between batch sizes of the same kernels


@dataclass(frozen=True)
class RequestResult:
    id: str
    prompt_tokens: int
    output_ids: tuple[int, ...]
    margins: tuple[float, ...]  # where each output token was chosen, the change of two logits that could undo it:
    # greedy, best minus second; sampled, to the nearer end of the token's span of the distribution, at most 100
    stop_reason: str  # stop_token | max_new_tokens | kv_full
    ttft_s: float
    tpot_s: float | None  # None for fewer than two output tokens
    round_s_p50: float | None
    round_s_p95: float | None
    top5_after_prompt: tuple[tuple[int, float], ...]  # (token id, logit)
    exactness: ExactnessCount | None


@dataclass(frozen=True)
class AgentError:
    """kinds: bad_spec, pack_corrupt, budget_too_small, out_of_memory, disk_full, io_error, nan_logits, engine_error."""

    kind: str
    message: str
    detail: str = ""  # traceback for the log, never shown first


@dataclass(frozen=True)
class JobResult:
    version: int
    attempt_id: str
    trial_id: str
    engine_version: str
    ok: bool
    error: AgentError | None
    requests: tuple[RequestResult, ...]
    metrics: dict[str, float]  # ENGINE §10 trial keys that exist; absent rather than NaN
    tags: dict[str, str]  # io_mode, flash_cap_mb_s, accelerator, energy_method, exactness, void.<quantity>
    plan: dict[str, Any]  # the DRAM plan, thread counts, kernel build
    edges: tuple[EdgeTrace, ...] = ()  # of a job of kind edges
    costs: CostCalibration | None = None  # of a job of kind costs
