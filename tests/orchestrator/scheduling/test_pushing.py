"""Models stay where they are as long as that costs less than a push."""

from __future__ import annotations

import dataclasses

from orchestrator.entities import DeviceState
from orchestrator.scheduling.choose import Scheduler
from orchestrator.scheduling.durations import Durations, Kind
from orchestrator.scheduling.floor import Floor, Running
from orchestrator.scheduling.pushing import PUSH_MB_S
from orchestrator.scheduling.queue import Queue
from orchestrator.scheduling.waiting import Waiting
from tests.fakes import farm

PHONES = [dataclasses.replace(farm.phone(name), kind="usb") for name in ("p0", "p1")]
PUSH_S = 100.0


def scheduler(*pairs: str, each_s: float = 10.0) -> Scheduler:
    """A trial of every pair, p0 having the models of `a`."""
    durations = Durations()
    made = Scheduler(Queue(durations))
    for number, pair in enumerate(pairs):
        durations.observe(Kind(config=pair), "p0", each_s)
        push_mb = PUSH_S * PUSH_MB_S
        made.queue.add(Waiting(f"t{number}", number, "s", None, pair=pair, kind=Kind(config=pair), push_mb=push_mb))
    made.pushing.note("p0", "a")
    return made


def started(made: Scheduler, floor: Floor, now: float = 0.0) -> dict[str, str]:
    return {phone.name: trial.pair for trial, phone in made.assign(floor, now)}


def test_a_phone_takes_what_needs_no_push_first() -> None:
    assert started(scheduler("b", "a"), Floor(PHONES)) == {"p0": "a", "p1": "b"}


def test_a_short_wait_for_the_models_is_better_than_a_push_and_a_long_one_is_not() -> None:
    made, floor = scheduler("a"), Floor(PHONES, [Running("p0", False)])
    assert started(made, floor, 0.0) == {}
    assert started(made, floor, PUSH_S - 1) == {}
    assert started(made, floor, PUSH_S) == {"p1": "a"}


def test_much_work_is_worth_a_push() -> None:
    floor = Floor(PHONES, [Running("p0", False)])
    assert started(scheduler(*"aaaaaaaaaaaaa"), floor) == {"p1": "a"}


def test_nobody_waits_for_a_phone_that_is_away() -> None:
    gone = [dataclasses.replace(PHONES[0], state=DeviceState.OFFLINE), PHONES[1]]
    assert started(scheduler("a"), Floor(gone)) == {"p1": "a"}
