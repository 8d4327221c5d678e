"""Threads and cores: what is tried on which clusters, and what the best of synthetic times is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.core_choice import best_cores, core_candidates, cores_by_topology
from device_agent.protocol import ANYWHERE, CoresSpec, CoreTrial, parse_cores, said_cores

TWO = {0: 1.0, 1: 1.0}
# as a Snapdragon 8 Gen 3 numbers them: two small cores, five middle ones, a prime one
CLUSTERS = dict.fromkeys((0, 1), 380.0) | dict.fromkeys(range(2, 7), 850.0) | {7: 1024.0}


def test_two_like_cores() -> None:
    alone = CoresSpec(False, (0,), (1,))
    assert core_candidates(TWO) == [
        CoreTrial(1, ANYWHERE),
        CoreTrial(2, ANYWHERE),
        CoreTrial(1, alone),
        CoreTrial(1, replace(alone, readers=())),
    ]


def test_clusters_are_filled_from_the_biggest_core() -> None:
    found = core_candidates(CLUSTERS)
    assert {trial.threads for trial in found} == {1, 5, 6, 7, 8}
    bound = {(said_cores(t.cores.compute), said_cores(t.cores.readers)) for t in found if t.cores != ANYWHERE}
    assert bound >= {("7", "0-6"), ("2-7", "0-1"), ("2-7", "any")}


def test_one_core_leaves_no_choice() -> None:
    assert core_candidates({3: 1.0}) == [CoreTrial(1, ANYWHERE)]


@given(st.dictionaries(st.integers(0, 15), st.sampled_from([1.0, 2.0, 4.0]), min_size=1))
def test_candidates_are_possible_and_none_is_tried_twice(capacities: dict[int, float]) -> None:
    found = core_candidates(capacities)
    assert len(set(found)) == len(found)
    for trial in found:
        assert 1 <= trial.threads <= len(capacities)
        assert len(trial.cores.compute) in (0, trial.threads)
        assert not set(trial.cores.compute) & set(trial.cores.readers)
        outside = capacities.keys() - set(trial.cores.compute)
        if trial.cores.compute and outside:  # nothing bigger is left idle
            least = min(capacities[core] for core in trial.cores.compute)
            assert least >= max(capacities[core] for core in outside)


def timed(*times: tuple[int, str, float, float]) -> list[CoreTrial]:
    return [
        CoreTrial(threads, CoresSpec(False, parse_cores(cores)), round_s, compute_s)
        for threads, cores, round_s, compute_s in times
    ]


@pytest.mark.parametrize(
    ("table", "best"),
    [
        # bound by compute: all big cores; small ones hold the others up at barriers
        (timed((1, "7", 2.0, 1.9), (6, "2-7", 0.6, 0.5), (8, "any", 0.8, 0.7)), "2-7"),
        # bound by the flash: rounds are alike, and what computes least leaves most for a larger tree
        (timed((1, "7", 1.00, 0.9), (6, "2-7", 1.01, 0.4), (8, "any", 1.015, 0.5)), "2-7"),
        # alike is within 2 %
        (timed((1, "7", 1.00, 0.9), (6, "2-7", 1.03, 0.4)), "7"),
        # no difference at all: fewer threads
        (timed((6, "2-7", 1.0, 0.5), (1, "7", 1.0, 0.5)), "7"),
    ],
)
def test_the_best_of_synthetic_tables(table: list[CoreTrial], best: str) -> None:
    assert said_cores(best_cores(table).cores.compute) == best


def test_without_measurements_big_cores_compute_and_small_ones_read() -> None:
    assert cores_by_topology(CLUSTERS) == CoreTrial(6, CoresSpec(False, (2, 3, 4, 5, 6, 7), (0, 1)))
    assert cores_by_topology(TWO) == CoreTrial(2, ANYWHERE)


@given(st.sets(st.integers(0, 1023)))
def test_lists_of_cores_are_read_as_they_are_written(cores: set[int]) -> None:
    assert parse_cores(said_cores(tuple(cores))) == tuple(sorted(cores))


@pytest.mark.parametrize("text", ["", "4-", "7-4", "big", "-1", "1024", "0..3", "auto"])
def test_what_is_no_list_of_cores_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="core"):
        parse_cores(text)
