"""What follows from what is seen of a phone: a table."""

from __future__ import annotations

import pytest

from orchestrator.entities import DeviceState
from orchestrator.farm.health_rules import ANSWERS, MISSES, Sighting, Streak, judge
from orchestrator.farm.sensors import Vitals

READY, OFFLINE, COOLING, LOW, REFUSED = (
    DeviceState.READY,
    DeviceState.OFFLINE,
    DeviceState.COOLING,
    DeviceState.LOW_BATTERY,
    DeviceState.UNAUTHORIZED,
)
LOST = Sighting("no answer")
NO = Sighting("does not trust our key", unauthorized=True)
OTHER = Sighting("another phone answers", clear=True)
THERE = Sighting()


def sensed(**vitals: object) -> Sighting:
    return Sighting(vitals=Vitals(**vitals))  # type: ignore[arg-type]


def course(state: DeviceState, *sightings: Sighting) -> list[DeviceState]:
    """The state after each sighting."""
    streak, states = Streak(), []
    for sighting in sightings:
        streak = streak.after(sighting)
        state, _ = judge(state, streak, sighting)
        states.append(state)
    return states


def test_presence_has_hysteresis() -> None:
    assert course(READY, *[LOST] * (MISSES - 1), THERE, LOST) == [READY] * (MISSES + 1)
    assert course(READY, *[LOST] * MISSES)[-1] is OFFLINE
    assert course(OFFLINE, *[THERE] * (ANSWERS - 1), LOST, THERE) == [OFFLINE] * (ANSWERS + 1)
    assert course(OFFLINE, *[THERE] * ANSWERS)[-1] is READY


def test_a_phone_that_flaps_stays_what_it_is() -> None:
    assert set(course(READY, *[LOST, THERE] * 10)) == {READY}
    assert set(course(OFFLINE, *[THERE, LOST] * 10)) == {OFFLINE}


@pytest.mark.parametrize("state", [READY, OFFLINE, COOLING, LOW, REFUSED])
def test_a_clear_no_needs_no_second(state: DeviceState) -> None:
    assert judge(state, Streak(misses=1), NO) == (REFUSED, "does not trust our key")
    assert judge(state, Streak(misses=1), OTHER) == (OFFLINE, "another phone answers")


def test_a_key_that_is_allowed_again_is_enough() -> None:
    assert course(REFUSED, THERE) == [READY]


@pytest.mark.parametrize(
    ("state", "vitals", "then"),
    [
        (READY, {"battery_c": 44.9}, READY),
        (READY, {"battery_c": 45.0}, COOLING),
        (COOLING, {"battery_c": 44.0}, COOLING),
        (COOLING, {"battery_c": 39.9}, READY),
        (READY, {"thermal_status": 2}, READY),
        (READY, {"thermal_status": 3}, COOLING),
        (COOLING, {"thermal_status": 2}, COOLING),
        (COOLING, {"thermal_status": 1}, READY),
        (READY, {"thermal_status": 5, "thermal_faked": True}, READY),
        (READY, {"battery_c": 60.0, "battery_faked": True}, READY),
        (READY, {"battery_percent": 14}, LOW),
        (LOW, {"battery_percent": 24}, LOW),
        (LOW, {"battery_percent": 25}, READY),
        (READY, {"battery_percent": 5, "charging": True}, READY),
        (LOW, {"battery_percent": 5, "charging": True}, READY),
        (READY, {"battery_percent": 5, "battery_faked": True}, READY),
        (COOLING, {"battery_percent": 5}, LOW),
        (LOW, {"battery_c": 50.0, "battery_percent": 5}, COOLING),
        (COOLING, {}, READY),  # it tells nothing any more: nothing speaks against it
    ],
)
def test_heat_and_battery(state: DeviceState, vitals: dict[str, object], then: DeviceState) -> None:
    found, reason = judge(state, Streak(answers=1), sensed(**vitals))
    assert found is then
    assert bool(reason) is (then is not READY)


def test_an_echo_alone_does_not_cool_a_phone() -> None:
    assert course(COOLING, THERE, THERE) == [COOLING, COOLING]
    assert course(LOW, THERE, THERE) == [LOW, LOW]
