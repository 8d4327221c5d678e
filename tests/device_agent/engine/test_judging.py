"""Teacher-forced judgement: what rounding can do is a tie at most, anything else is a divergence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.engine.judging import Standing, judge
from device_agent.engine.sampling import Sampler
from device_agent.kernels.base import Floats
from device_agent.protocol import SamplingSpec

SPECS = st.builds(
    SamplingSpec,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 10]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.05]),
    min_p=st.sampled_from([0.0, 0.05, 0.5]),
    seed=st.integers(0, 1000),
)


def logits(seed: int, spread: float, n: int = 40) -> Floats:
    return (np.random.default_rng(seed).standard_normal(n) * spread).astype(np.float32)


@settings(max_examples=300, deadline=None)
@given(SPECS, st.integers(0, 2**32), st.sampled_from([0.5, 2.0, 6.0]), st.sampled_from([0.0, 0.01, 0.3, 2.0]))
def test_whatever_rounding_within_the_tolerance_chooses_is_no_divergence(
    spec: SamplingSpec, seed: int, spread: float, tolerance: float
) -> None:
    row, sampler = logits(seed, spread), Sampler(spec, "r", "m")
    shift = np.random.default_rng(seed + 1).uniform(-0.499, 0.499, len(row)) * tolerance
    chosen = sampler.choose((row + shift).astype(np.float32), 3).token
    judgement = judge(sampler, row, 3, chosen, tolerance)
    assert judgement.standing is not Standing.DIVERGED
    ours = sampler.choose(row, 3).token
    assert (judgement.standing is Standing.EXACT) == (chosen == ours)
    assert not (judge(sampler, row, 3, ours, tolerance).sure and chosen != ours)


@settings(max_examples=200, deadline=None)
@given(SPECS, st.integers(0, 2**32))
def test_without_a_tolerance_only_the_choice_itself_passes(spec: SamplingSpec, seed: int) -> None:
    row, sampler = logits(seed, 2.0), Sampler(spec, "r", "m")
    chosen = sampler.choose(row, 0).token
    standings = {token: judge(sampler, row, 0, token, 0.0).standing for token in range(len(row))}
    assert standings.pop(chosen) is Standing.EXACT
    assert set(standings.values()) == {Standing.DIVERGED}


@pytest.mark.parametrize("spec", [SamplingSpec(1.0), SamplingSpec(0.7, top_p=0.9), SamplingSpec(1.0, top_k=8)])
def test_draws_of_another_stream_diverge(spec: SamplingSpec) -> None:
    """A wrong seed, a wrong position or plain wrong sampling cannot hide behind ties."""
    right, wrong = Sampler(spec, "r", "m"), Sampler(spec, "s", "m")
    rows = [logits(seed, 3.0) for seed in range(200)]
    standings = [judge(right, row, i, wrong.choose(row, i).token, 0.02).standing for i, row in enumerate(rows)]
    apart = sum(right.choose(row, i).token != wrong.choose(row, i).token for i, row in enumerate(rows))
    assert standings.count(Standing.TIE) < 0.05 * apart
    assert standings.count(Standing.DIVERGED) > 0.95 * apart > 50


def test_one_kept_token_is_sure_when_it_leads_by_more_than_the_tolerance() -> None:
    row = np.array([0.0, 1.0, 3.0, 2.9], np.float32)
    for spec in (SamplingSpec(1.0, top_k=1), SamplingSpec(1.0, top_p=0.1)):
        assert judge(Sampler(spec, "r", "m"), row, 0, 2, 0.05).sure
        assert not judge(Sampler(spec, "r", "m"), row, 0, 2, 0.2).sure
        assert judge(Sampler(spec, "r", "m"), row, 0, 3, 0.2).standing is Standing.TIE
        assert judge(Sampler(spec, "r", "m"), row, 0, 3, 0.05).standing is Standing.DIVERGED
