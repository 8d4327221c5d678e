"""Intervals cover what they promise, and spreads are told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orchestrator.statistics import Matrix, spread

SWEEPS = 2000
# Standard deviations of sessions, prompts and residuals of log ratios in A/A sweeps: nothing but noise.
WORLDS = {
    "as phones are": (0.03, 0.0, 0.04),
    "sessions differ most": (0.10, 0.0, 0.02),
    "prompts react differently": (0.03, 0.03, 0.05),
}


def drawn(dice: np.random.Generator, sessions: int, prompts: int, world: str) -> Matrix:
    session, prompt, rest = WORLDS[world]
    made: Matrix = (
        dice.normal(0, session, (sessions, 1))
        + dice.normal(0, prompt, (1, prompts))
        + dice.normal(0, rest, (sessions, prompts))
    )
    return made


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_of_two_thousand_sweeps_of_a_against_a_the_interval_covers_one_in_93_to_97_percent(world: str) -> None:
    dice = np.random.default_rng(11)
    covered = 0
    for seed in range(SWEEPS):
        found = spread(drawn(dice, 8, 10, world), seed)
        covered += found.low <= 0.0 <= found.high  # logarithms: a ratio of one
    assert 0.93 <= covered / SWEEPS <= 0.97


def test_few_sessions_are_not_made_to_look_like_many() -> None:
    dice = np.random.default_rng(5)
    found = [spread(drawn(dice, 3, 10, "sessions differ most"), seed, 199) for seed in range(300)]
    assert sum(f.low <= 0.0 <= f.high for f in found) >= 0.9 * len(found)


def test_spreads_within_and_between_sessions_are_told_apart() -> None:
    dice = np.random.default_rng(1)
    prompts = dice.normal(0, 1.0, (1, 50))  # prompts differ by far the most: no spread of the measurement
    figures = prompts + dice.normal(0, 0.10, (40, 1)) + dice.normal(0, 0.03, (40, 50))
    found = spread(figures)
    assert found.within == pytest.approx(0.03, rel=0.1)
    assert found.between == pytest.approx(0.10, rel=0.4)


def test_one_session_bounds_nothing_and_one_prompt_knows_sessions_only() -> None:
    alone = spread(np.array([[1.0, 2.0, 3.0]]))
    assert (alone.mean, alone.low, alone.high, alone.within, alone.between) == (2.0, -np.inf, np.inf, None, None)
    column = spread(np.array([[1.0], [2.0], [3.0]]))
    assert column.within is None
    assert column.between == pytest.approx(1.0)
    assert column.low == pytest.approx(2.0 - 4.302653 / 3**0.5)


@given(arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(2, 6)), elements=st.floats(-3, 3)), st.floats(-5, 5))
@example(np.array([[1.75, 0.0, 0.0], [0.0, 0.0, 0.0]]), 1.0)  # mean squares that are equal but for rounding
def test_an_interval_holds_its_mean_and_moves_with_it(figures: Matrix, shift: float) -> None:
    found, moved = spread(figures, resamples=99), spread(figures + shift, resamples=99)
    assert found.low <= found.mean <= found.high
    assert moved.mean == pytest.approx(found.mean + shift, abs=1e-9)
    assert moved.high - moved.low == pytest.approx(found.high - found.low, rel=1e-2, abs=1e-6)


def test_figures_that_do_not_vary_have_no_width() -> None:
    found = spread(np.full((4, 3), 0.7))
    assert (found.low, found.high) == pytest.approx((0.7, 0.7))
