import pytest

from benchmarks.ratios import Spread, best_by_set, paired, spread_of


def test_ratios_are_paired_by_set() -> None:
    """Sets differ more than contenders: ratios of medians would say 1."""
    above = {"a": 2.0, "b": 20.0, "c": 200.0, "only above": 1.0}
    below = {"a": 1.0, "b": 10.0, "c": 100.0, "only below": 1.0}
    assert paired(above, below) == [2.0, 2.0, 2.0]


def test_spread_tells_how_many_it_is_of() -> None:
    assert spread_of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    assert spread_of([]) is None


@pytest.mark.parametrize("missing", [{}, {"c": 1.0}])
def test_the_best_differs_by_set_and_needs_all(missing: dict[str, float]) -> None:
    one, other = {"a": 1.0, "b": 5.0}, {"a": 2.0, "b": 3.0}
    assert best_by_set(one, other) == {"a": 1.0, "b": 3.0}
    assert best_by_set(one, other, missing) == {}
