from __future__ import annotations

import pytest

from device_agent.engine.metrics import energy_metrics, exactness_metrics, request_times, trial_metrics
from device_agent.engine.outcome import RequestOutcome
from device_agent.protocol import ExactnessCount, RequestResult, RoundTrace


def trace(accepted: int, verified: int = 6, read_bytes: int = 0, seconds: float = 0.5) -> RoundTrace:
    counts = {"draft_passes": 5, "nodes_drafted": 5, "nodes_verified": verified, "nodes_pruned": 0}
    times = dict.fromkeys(("draft_s", "read_wait_s", "verify_compute_s", "projection_s"), 0.1)
    kept = {"accepted_tokens": accepted, "acceptance_length": accepted + 1}
    rest = {"round_s": seconds, "read_bytes": read_bytes, "rows_projected": verified - 1, "n_kv": 20}
    return RoundTrace("p", 0, **counts, **times, **kept, **rest)  # type: ignore[arg-type]  # mixed keyword values


def outcome(tokens: int, rounds: tuple[RoundTrace, ...], ttft_s: float, decode_s: float) -> RequestOutcome:
    times = request_times(ttft_s, decode_s, tokens, rounds)
    result = RequestResult("p", 7, (1,) * tokens, (1.0,) * tokens, "max_new_tokens", top5_after_prompt=(),
                           exactness=None, **times)  # fmt: skip
    return RequestOutcome(result, rounds, 100.0, 100.0 + decode_s)


def test_ratios_follow_from_counters() -> None:
    outcomes = [
        outcome(11, (trace(4, read_bytes=10**9), trace(4, read_bytes=10**9)), ttft_s=1.0, decode_s=2.0),
        outcome(4, (trace(2, read_bytes=10**9),), ttft_s=3.0, decode_s=3.0),
    ]
    metrics = trial_metrics(outcomes, flash_bandwidth_mb_s=1000)
    assert metrics == pytest.approx(
        {
            "output_tokens": 15,
            "ttft_s": 2.0,
            "tpot_s": (0.2 + 1.0) / 2,
            "tokens_per_s": (5 + 1) / 2,
            "rounds": 3,
            "block_efficiency": 13 / 3,
            "acceptance_length": (5 + 5 + 3) / 3,
            "nodes_per_round": 6,
            "rows_projected": 15,
            "rows_in_full": 18,
            "draft_acceptance_rate": 10 / 15,
            "flash_read_bytes": 3e9,
            "tokens_per_flash_gb": 13 / 3,
            "flash_utilisation": 3 / 5,
        }
    )


def test_a_ratio_without_a_denominator_is_absent() -> None:
    metrics = trial_metrics([outcome(1, (), ttft_s=1.0, decode_s=0.0)], flash_bandwidth_mb_s=None)
    assert set(metrics) == {"output_tokens", "ttft_s", "rounds", "flash_read_bytes"}
    assert "draft_acceptance_rate" not in trial_metrics([outcome(2, (trace(0, verified=1),), 1.0, 1.0)], None)


def test_round_percentiles() -> None:
    times = request_times(1.0, 5.5, 12, [trace(0, seconds=i / 10) for i in range(1, 11)])
    assert times["round_s_p50"] == pytest.approx(0.55)
    assert times["round_s_p95"] == pytest.approx(0.955)
    assert times["tpot_s"] == pytest.approx(0.5)


def test_energy_is_per_token_that_rounds_emitted() -> None:
    metrics = energy_metrics(gross_j=30.0, idle_w=2.0, outcomes=[outcome(11, (trace(4), trace(4)), 1.0, 5.0)])
    expected = {"energy_gross_j_per_token": 3.0, "energy_j_per_token": 2.0, "power_w_mean": 6.0}
    assert metrics == pytest.approx(expected)
    assert energy_metrics(30.0, 2.0, [outcome(1, (), 1.0, 0.0)]) == {}


def test_exactness_is_summed() -> None:
    counts = [ExactnessCount(30, 2, 0, None, 0.1), ExactnessCount(20, 0, 1, 5, 0.1)]
    assert exactness_metrics(counts) == {"exact_tokens": 50, "tie_tokens": 2, "diverged_tokens": 1}
