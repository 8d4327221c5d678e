from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.engine.sampling import Sampler, check_sampling, likely_tokens, tempered, threshold, top_tokens
from device_agent.failure import AgentFailure
from device_agent.protocol import SamplingSpec

ROW = np.log(np.array([0.05, 0.4, 0.1, 0.25, 0.2], np.float32))


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        (SamplingSpec(1.0), {0, 1, 2, 3, 4}),
        (SamplingSpec(1.0, top_k=2), {1, 3}),
        (SamplingSpec(1.0, top_k=99), {0, 1, 2, 3, 4}),
        (SamplingSpec(1.0, top_p=0.6), {1, 3}),
        (SamplingSpec(1.0, top_p=0.7), {1, 3, 4}),
        (SamplingSpec(1.0, top_p=1e-6), {1}),
        (SamplingSpec(1.0, min_p=0.4), {1, 3, 4}),
        (SamplingSpec(1.0, top_k=3, top_p=0.75), {1, 3}),  # 0.65 of the 0.85 that top-k keeps is 0.76
        (SamplingSpec(1.0, top_k=4, min_p=0.6), {1, 3}),
        (SamplingSpec(0.25, top_p=0.9), {1, 3}),  # tempered first
    ],
)
def test_filters_keep_what_they_should(spec: SamplingSpec, kept: set[int]) -> None:
    scaled = tempered(ROW, spec.temperature)
    assert set(np.flatnonzero(scaled >= threshold(scaled, spec)).tolist()) == kept


def test_a_nucleus_larger_than_the_first_search_is_found() -> None:
    scaled = tempered(np.random.default_rng(0).standard_normal(5000).astype(np.float32), 1.0)
    weights = np.sort(np.exp(scaled))[::-1]
    wanted = 1 + int(np.searchsorted(np.cumsum(weights), 0.9 * weights.sum()))
    assert wanted > 1000
    assert (scaled >= threshold(scaled, SamplingSpec(1.0, top_p=0.9))).sum() == wanted


def test_draws_have_the_distributions_shares_and_their_margins_say_what_undoes_them() -> None:
    sampler = Sampler(SamplingSpec(1.0), "r", "m")
    choices = [sampler.choose(ROW, index) for index in range(4000)]
    shares = np.bincount([choice.token for choice in choices], minlength=5) / 4000
    np.testing.assert_allclose(shares, np.exp(ROW), atol=0.03)
    for index, choice in enumerate(choices[:200]):
        moved = ROW.copy()
        moved[: choice.token] += choice.margin * 1.02  # raise what comes before, or what comes after
        late = ROW.copy()
        late[choice.token + 1 :] += choice.margin * 1.02
        undone = {sampler.choose(row, index).token for row in (moved, late)}
        assert undone != {choice.token} or choice.margin == 100


@given(st.integers(1, 2000), st.integers(1, 20), st.integers(0, 99))
def test_the_best_few_are_found_in_blocks(n: int, count: int, seed: int) -> None:
    row = np.random.default_rng(seed).integers(0, 60, n).astype(np.float32)
    best = sorted(range(n), key=lambda i: (-row[i], i))[:count]
    found = top_tokens(row, count)
    assert [value for _, value in found] == [row[i] for i in best]
    assert all(row[token] == value for token, value in found)
    assert len({token for token, _ in found}) == min(n, count)


def test_likely_tokens_carry_their_softmax_when_asked_for() -> None:
    (first, second), plain = likely_tokens(ROW, 2, True, "m"), likely_tokens(ROW, 2, False, "m")
    assert (first[0], second[0]) == (1, 3)
    assert first[1] == pytest.approx(0.4)
    assert second[1] == pytest.approx(0.25)
    assert plain == ((1, None), (3, None))


@pytest.mark.parametrize("probabilities", [True, False])
def test_a_draft_s_single_nan_is_named_wherever_it_is(probabilities: bool) -> None:
    row = np.linspace(0, 1, 2000, dtype=np.float32)
    row[7] = np.nan
    with pytest.raises(AgentFailure, match="draft: the logit of token 7 is nan"):
        likely_tokens(row, 3, probabilities, "draft")


@pytest.mark.parametrize("spec", [SamplingSpec(), SamplingSpec(0.7, top_k=2)])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_refused(spec: SamplingSpec, bad: float) -> None:
    row = ROW.copy()
    row[2] = bad
    with pytest.raises(AgentFailure, match="tiny: the logit of token 2") as failed:
        Sampler(spec, "r", "tiny").choose(row, 0)
    assert failed.value.kind == "nan_logits"


@pytest.mark.parametrize(
    "spec", [SamplingSpec(-1.0), SamplingSpec(math.nan), SamplingSpec(1.0, top_p=0.0), SamplingSpec(1.0, min_p=1.5)]
)
def test_settings_out_of_range_are_refused(spec: SamplingSpec) -> None:
    with pytest.raises(AgentFailure, match=r"sampling\.\w+=.* is not within") as failed:
        check_sampling(spec)
    assert failed.value.kind == "bad_spec"
