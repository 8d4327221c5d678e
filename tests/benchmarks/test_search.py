from hypothesis import given
from hypothesis import strategies as st

from benchmarks.search import best_of, coarse, coarse_to_fine


def test_best_of_takes_the_first_of_equals_and_tells_all() -> None:
    times = {"a": 2.0, "b": 1.0, "c": 1.0}
    assert best_of(times, times.__getitem__) == ("b", times)


def test_coarse_lies_in_the_middle_of_the_range() -> None:
    assert coarse(1, 12, 3) == [2, 5, 8, 11]
    assert coarse(1, 12, 1) == list(range(1, 13))


@given(st.integers(1, 12), st.integers(1, 5), st.floats(0.1, 3), st.floats(0.1, 3))
def test_one_valley_is_found_with_fewer_measurements_than_there_are(
    lowest: int, step: int, left: float, right: float
) -> None:
    asked: list[int] = []

    def valley(k: int) -> float:
        asked.append(k)
        return left * (lowest - k) if k < lowest else right * (k - lowest)

    best, found = coarse_to_fine(1, 12, step, True, valley)
    assert abs(best - lowest) <= 1  # a slope much steeper than the other hides the bottom between two measured ones
    assert found[best] == min(found.values())
    assert len(asked) == len(set(asked)) <= 12


def test_a_flat_valley_is_found_exactly() -> None:
    def distance(k: int) -> float:
        return abs(k - lowest)

    for lowest in range(1, 13):
        assert coarse_to_fine(1, 12, 3, True, distance)[0] == lowest


def test_coarse_only_stays_on_its_grid() -> None:
    _, found = coarse_to_fine(1, 12, 4, False, lambda k: abs(k - 7))
    assert sorted(found) == coarse(1, 12, 4)
