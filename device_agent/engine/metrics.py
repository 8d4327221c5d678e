"""The measures of ENGINE §10, each defined once. Counters come from rounds; a ratio without a denominator is absent."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TypedDict

import numpy as np

from device_agent.engine.outcome import RequestOutcome
from device_agent.protocol import ExactnessCount, RoundTrace


class RequestTimes(TypedDict):
    """Seconds."""

    ttft_s: float
    tpot_s: float | None
    round_s_p50: float | None
    round_s_p95: float | None


def request_times(ttft_s: float, decode_s: float, output_tokens: int, rounds: Sequence[RoundTrace]) -> RequestTimes:
    """`decode_s`: from the first output token to the last. TPOT = decode_s ÷ (output tokens − 1)."""
    gaps = [trace.round_s for trace in rounds]
    return RequestTimes(
        ttft_s=ttft_s,
        tpot_s=decode_s / (output_tokens - 1) if output_tokens > 1 else None,
        round_s_p50=float(np.percentile(gaps, 50)) if gaps else None,
        round_s_p95=float(np.percentile(gaps, 95)) if gaps else None,
    )


def decoded_tokens(outcomes: Sequence[RequestOutcome]) -> int:
    """Tokens that rounds emitted: all but each request's first, which the prefill gives."""
    return sum(len(outcome.result.output_ids) - 1 for outcome in outcomes)


def decode_s(outcomes: Sequence[RequestOutcome]) -> float:
    """Seconds between first and last tokens, over all requests."""
    return sum(outcome.decode_end_s - outcome.decode_start_s for outcome in outcomes)


def trial_metrics(outcomes: Sequence[RequestOutcome], flash_bandwidth_mb_s: float | None) -> dict[str, float]:
    """Everything that follows from the timed requests. `flash_bandwidth_mb_s`: the bandwidth in force, if known."""
    rounds = [trace for outcome in outcomes for trace in outcome.rounds]
    return _speed(outcomes) | _speculation(outcomes, rounds) | _flash(outcomes, rounds, flash_bandwidth_mb_s)


def _speed(outcomes: Sequence[RequestOutcome]) -> dict[str, float]:
    """Medians over requests."""
    results = [outcome.result for outcome in outcomes]
    metrics = {"output_tokens": float(sum(len(result.output_ids) for result in results))}
    if results:
        metrics["ttft_s"] = median(result.ttft_s for result in results)
    if tpots := [result.tpot_s for result in results if result.tpot_s]:
        metrics |= {"tpot_s": median(tpots), "tokens_per_s": median(1 / tpot for tpot in tpots)}
    return metrics


def _speculation(outcomes: Sequence[RequestOutcome], rounds: Sequence[RoundTrace]) -> dict[str, float]:
    metrics = {"rounds": float(len(rounds))}
    if rounds:
        metrics["block_efficiency"] = decoded_tokens(outcomes) / len(rounds)
        metrics["acceptance_length"] = sum(trace.acceptance_length for trace in rounds) / len(rounds)
        metrics["rows_projected"] = float(sum(trace.rows_projected for trace in rounds))
        metrics["rows_in_full"] = float(sum(trace.nodes_verified for trace in rounds))  # had all nodes been projected
        metrics["nodes_per_round"] = sum(trace.nodes_verified for trace in rounds) / len(rounds)
    if drafted := sum(trace.nodes_verified - 1 for trace in rounds):
        metrics["draft_acceptance_rate"] = sum(trace.accepted_tokens for trace in rounds) / drafted
    return metrics


def _flash(
    outcomes: Sequence[RequestOutcome], rounds: Sequence[RoundTrace], bandwidth_mb_s: float | None
) -> dict[str, float]:
    """Bytes count when a round consumed them; a prefill's do not. Utilisation: bytes ÷ (bandwidth × decode time)."""
    read = sum(trace.read_bytes for trace in rounds)
    metrics = {"flash_read_bytes": float(read)}
    if read:
        metrics["tokens_per_flash_gb"] = decoded_tokens(outcomes) / (read / 1e9)
    if read and bandwidth_mb_s:
        metrics["flash_utilisation"] = read / (bandwidth_mb_s * 1e6 * decode_s(outcomes))
    return metrics


def energy_metrics(gross_j: float, idle_w: float, outcomes: Sequence[RequestOutcome]) -> dict[str, float]:
    """`gross_j`: joules over the decode windows. Net takes off what an idle phone would have used meanwhile."""
    tokens, seconds = decoded_tokens(outcomes), decode_s(outcomes)
    if not tokens:
        return {}
    return {
        "energy_gross_j_per_token": gross_j / tokens,
        "energy_j_per_token": (gross_j - idle_w * seconds) / tokens,
        "power_w_mean": gross_j / seconds,
    }


def exactness_metrics(counts: Sequence[ExactnessCount]) -> dict[str, float]:
    return {
        "exact_tokens": float(sum(count.exact_tokens for count in counts)),
        "tie_tokens": float(sum(count.tie_tokens for count in counts)),
        "diverged_tokens": float(sum(count.diverged_tokens for count in counts)),
    }
