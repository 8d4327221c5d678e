"""Expected ends and the lower bound."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.entities import DeviceState
from orchestrator.scheduling.durations import Durations, Kind
from orchestrator.scheduling.makespan import Work, expected_s, lower_bound_s
from tests.fakes import farm

NAMES = ("p0", "p1", "p2")
PHONES = [dataclasses.replace(farm.phone(name), kind="usb") for name in NAMES]
ALL = frozenset(NAMES)

works = st.lists(st.tuples(st.floats(0, 1000), st.sets(st.sampled_from(NAMES), min_size=1)), max_size=8)


def test_shared_work_fills_up_the_least_busy() -> None:
    work = [Work(100.0, frozenset({"p0"})), Work(20.0, frozenset({"p1"})), Work(60.0, ALL)]
    assert expected_s(work, PHONES) == 100.0
    assert expected_s([*work, Work(90.0, ALL)], PHONES) == pytest.approx(100.0)
    assert expected_s([*work, Work(150.0, ALL)], PHONES) == pytest.approx(110.0)


def test_timed_runs_on_virtual_phones_of_one_host_add_up() -> None:
    virtual = [farm.phone(name) for name in NAMES]
    work = [Work(10.0, frozenset({name}), alone=True) for name in NAMES]
    assert expected_s(work, virtual) == 30.0
    assert expected_s(work, PHONES) == 10.0


def test_work_without_a_phone_is_left_out() -> None:
    gone = [dataclasses.replace(PHONES[0], state=DeviceState.QUARANTINED), *PHONES[1:]]
    assert expected_s([Work(50.0, frozenset({"p0"})), Work(5.0, frozenset({"gone"}))], gone) == 0.0


@given(works)
def test_nothing_is_expected_to_end_before_the_bound(drawn: list[tuple[float, set[str]]]) -> None:
    work: dict[frozenset[str], float] = {}
    for seconds, phones in drawn:
        work[frozenset(phones)] = work.get(frozenset(phones), 0.0) + seconds
    expected = expected_s([Work(s, phones) for phones, s in work.items()], PHONES)
    assert expected >= lower_bound_s(work, 0.0) * (1 - 1e-9) - 1e-9
    assert expected <= sum(work.values()) * (1 + 1e-9)


def test_estimates_come_from_what_is_most_alike() -> None:
    durations = Durations()
    assert durations.estimate_s(Kind("c", "pair", "chain", "flash", 64)) is None
    durations.observe(Kind("c", "pair", "chain", "flash", 64), "p0", 32.0)
    durations.observe(Kind("c", "pair", "chain", "flash", 64), "p1", 64.0)
    assert durations.estimate_s(Kind("c", "pair", "chain", "flash", 64), "p1") == 64.0
    assert durations.estimate_s(Kind("c", "pair", "chain", "flash", 64), "p2") == 48.0
    assert durations.estimate_s(Kind("other", "pair", "chain", "flash", 128)) == 96.0
    assert durations.estimate_s(Kind("x", "pair", "lever", "resident", 64)) == 48.0
    assert durations.estimate_s(Kind("x", "new", "lever", "resident", 32)) == 24.0
