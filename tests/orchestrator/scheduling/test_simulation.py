"""How good the choices are together: the makespan of a simulated farm against the bound that no schedule beats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.farm_simulation import Scenario, simulate

SMALL = Scenario(phones=40, trials=2000)
LARGE = Scenario(phones=1000, trials=50_000)
SHAPES = {
    "any": {},
    "bound and picky": {"bound": 0.2, "picky": 0.2},
    "four pairs of 1.6 GB": {"pairs": 4, "push_mb": 1600.0},
    "three sweeps": {"bound": 0.2, "sweeps": 3},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_small_farm_ends_within_five_percent_of_the_bound(shape: str) -> None:
    scenario = replace(SMALL, **SHAPES[shape])  # type: ignore[arg-type]
    found = simulate(scenario)
    assert set(found.ran.values()) == {1}
    assert len(found.ran) == scenario.trials
    assert 1.0 <= found.makespan_over_bound < 1.05


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_thousand_phones_end_within_five_percent_of_the_bound(shape: str) -> None:
    found = simulate(replace(LARGE, **SHAPES[shape]))  # type: ignore[arg-type]
    assert len(found.ran) == LARGE.trials
    assert found.makespan_over_bound < 1.05
