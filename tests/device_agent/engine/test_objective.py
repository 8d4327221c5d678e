from __future__ import annotations

import numpy as np
import pytest

from device_agent.engine.objective import Rates, price


def test_the_rate_converges_to_that_of_the_rounds() -> None:
    rates = Rates(plain_s=1.0, plain_j=2.0)
    for _ in range(100):
        rates.observe(4.0, 0.8, 4.0)
    assert rates.per_second == pytest.approx(5.0, rel=0.01)
    assert rates.per_joule == pytest.approx(1.0, rel=0.01)


def test_the_rate_is_never_below_plain_decoding() -> None:
    """Or bad rounds would make time look cheap, and the next ones worse."""
    rates = Rates(plain_s=0.5, plain_j=1.0)
    for _ in range(50):
        rates.observe(1.0, 4.0, 9.0)
    assert (rates.per_second, rates.per_joule) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("objective", "expected"), [("latency", [2.0, 4.0]), ("energy", [3.0, 1.0]), ("edp", [2.5, 2.5])]
)
def test_objectives_weigh_seconds_and_joules(objective: str, expected: list[float]) -> None:
    rates = Rates(plain_s=0.5, plain_j=2.0)
    assert price(objective, rates, np.array([1.0, 2.0]), np.array([6.0, 2.0])) == pytest.approx(expected)


def test_edp_is_stationary_where_gain_squared_over_joule_seconds_is_largest() -> None:
    """Of rounds with these figures, the one that edp prefers at its own rates is the one of the best G² ÷ (J·S)."""
    gains, seconds, joules = np.array([1.0, 3.0, 5.0]), np.array([0.5, 0.8, 2.0]), np.array([1.0, 2.5, 9.0])
    rates, chosen = Rates(0.5, 1.0), 0
    for _ in range(200):
        chosen = int((gains - price("edp", rates, seconds, joules)).argmax())
        rates.observe(gains[chosen], seconds[chosen], joules[chosen])
    assert chosen == int((gains**2 / (joules * seconds)).argmax())
