"""Properties of the choice over random farms and queues."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.entities import Device, DeviceState
from orchestrator.scheduling.choose import Scheduler
from orchestrator.scheduling.durations import Durations, Kind
from orchestrator.scheduling.floor import Floor, Running
from orchestrator.scheduling.queue import Queue
from orchestrator.scheduling.waiting import Waiting
from tests.fakes import farm

NAMES = [f"p{i}" for i in range(5)]
STATES = [DeviceState.READY] * 4 + [DeviceState.COOLING, DeviceState.OFFLINE, DeviceState.QUARANTINED]


@st.composite
def devices(draw: st.DrawFn, states: list[DeviceState] = STATES) -> list[Device]:
    return [
        dataclasses.replace(
            farm.phone(
                name,
                state=draw(st.sampled_from(states)),
                host=draw(st.sampled_from(["h0", "h1"])),
                tags=tuple(sorted(draw(st.sets(st.sampled_from(["x", "y"]))))),
            ),
            kind=draw(st.sampled_from(["virtual", "usb"])),
        )
        for name in NAMES
    ]


@st.composite
def queues(draw: st.DrawFn, gone: bool = True) -> list[Waiting]:
    odd = ["gone"] if gone else []
    selectors = ["any", "any:p0,p1", *(["any:tag:x", "any:tag:none"] if gone else [])]
    return [
        Waiting(
            f"t{i}",
            i,
            draw(st.sampled_from(["s0", "s1"])),
            draw(st.sampled_from([None, *NAMES, *odd])),
            draw(st.sampled_from(selectors)),
            alone=draw(st.booleans()),
            repeat=draw(st.integers(0, 2)),
            priority=draw(st.integers(0, 1)),
            order=draw(st.sampled_from(["blocked", "random", "paired"])),
            avoid=frozenset(draw(st.sets(st.sampled_from(NAMES), max_size=2))),
        )
        for i in range(draw(st.integers(0, 14)))
    ]


def scheduler(queue: list[Waiting], durations: Durations | None = None) -> Scheduler:
    made = Scheduler(Queue(durations))
    for trial in queue:
        made.queue.add(trial)
    return made


def could_run(trial: Waiting, phone: Device, made: Scheduler) -> bool:
    return phone.name == trial.device if trial.device else phone.name in made.queue.selected(trial.phones)


@given(queues(), devices())
def test_what_starts_may_run_where_it_starts(queue: list[Waiting], phones: list[Device]) -> None:
    made = scheduler(queue)
    started = made.assign(Floor(phones), 0.0)
    assert sorted([t.trial_id for t, _ in started] + list(made.queue.trials)) == sorted(t.trial_id for t in queue)
    assert len({d.name for _, d in started}) == len(started)
    for trial, phone in started:
        assert phone.state is DeviceState.READY
        assert could_run(trial, phone, made)
    for host in ("h0", "h1"):
        here = [t.alone for t, d in started if d.simulated and d.host == host]
        assert len(here) <= 1 or not any(here)


@given(queues(), devices(), st.sets(st.sampled_from(NAMES)))
def test_nothing_that_could_start_is_held_up(queue: list[Waiting], phones: list[Device], busy: set[str]) -> None:
    """Whoever still waits could not start anywhere, whatever stands before it in the queue."""
    made, floor = scheduler(queue), Floor(phones, [Running(name, False) for name in busy])
    made.assign(floor, 0.0)
    for trial in made.queue.trials.values():
        for phone in phones:
            better = could_run(trial, phone, made) and phone.name in trial.avoid
            elsewhere = bool(made.queue.selected(trial.phones) & floor.usable - trial.avoid)
            assert not could_run(trial, phone, made) or floor.obstacle(phone, trial.alone) or (better and elsewhere)


@given(queues(), devices(), st.integers(0, 9))
def test_the_choice_is_the_same_every_time(queue: list[Waiting], phones: list[Device], seed: int) -> None:
    shuffled = random.Random(seed).sample(phones, len(phones))
    first, second = (scheduler(queue).assign(Floor(some), 0.0) for some in (phones, shuffled))
    assert first == second


@given(queues(gone=False), devices([DeviceState.READY]), st.randoms(use_true_random=False))
def test_everything_runs_once_in_the_end(queue: list[Waiting], phones: list[Device], dice: random.Random) -> None:
    made, floor = scheduler(queue), Floor(phones)
    ran: list[str] = []
    going: list[str] = []
    while True:
        for trial, phone in made.assign(floor, 0.0):
            ran.append(trial.trial_id)
            going.append(phone.name)
        if not going:
            break
        floor.leave(going.pop(dice.randrange(len(going))))
    assert sorted(ran) == sorted(t.trial_id for t in queue)
    assert not made.queue.work_s


def runs(made: Scheduler, phones: list[Device]) -> list[Waiting]:
    """All in the order in which they start, one at a time."""
    order, floor = [], Floor(phones)
    while started := made.assign(floor, 0.0):
        for trial, phone in started:
            order.append(trial)
            floor.leave(phone.name)
    return order


def trial(trial_id: str, device: str | None = None, **changes: Any) -> Waiting:
    number = changes.pop("number", int("".join(filter(str.isdigit, trial_id)) or 0))
    return Waiting(trial_id, number, changes.pop("sweep", "s"), device, **changes)


def test_paired_trials_alternate_on_their_phone_and_ties_are_shuffled_by_the_seed() -> None:
    def order(seed: int) -> list[str]:
        both = [
            trial(f"{c}{r}", "p0", number=i * 9 + r, repeat=r, order="paired", seed=seed)
            for i, c in enumerate("ab")
            for r in range(8)
        ]
        return [t.trial_id for t in runs(scheduler(both), [farm.phone("p0")])]

    for seed in range(3):
        assert [name[1:] for name in order(seed)] == [str(r) for r in range(8) for _ in "ab"]
        assert {name[0] for name in order(seed)[::2]} == {"a", "b"}  # neither always goes first
    assert order(0) == order(0) != order(1)


def test_blocked_order_is_as_submitted_and_random_order_is_the_seeds() -> None:
    names = [f"t{i}" for i in range(20)]

    def order(**how: Any) -> list[str]:
        return [t.trial_id for t in runs(scheduler([trial(n, "p0", **how) for n in names]), [farm.phone("p0")])]

    assert order() == names
    assert sorted(order(order="random")) == sorted(names)
    assert order(order="random") == order(order="random") != order(order="random", seed=1)
    grown = [trial(f"t{i}", "p0", order="random") for i in range(30)]
    kept = [t.trial_id for t in runs(scheduler(grown), [farm.phone("p0")]) if t.number < 20]
    assert kept == order(order="random")  # a sweep that grows keeps the order it had


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40))
def test_sweeps_share_the_phones_fairly(phones: int, mine: int, yours: int) -> None:
    queue = [trial(f"m{i}", sweep="mine") for i in range(mine)] + [trial(f"y{i}", sweep="yours") for i in range(yours)]
    floor = Floor([dataclasses.replace(farm.phone(f"p{i}"), kind="usb") for i in range(phones)])
    scheduler(queue).assign(floor, 0.0)
    held = floor.shares
    assert abs(held["mine"] - held["yours"]) <= 1 or held["mine"] == mine or held["yours"] == yours


def test_sweeps_take_turns_on_one_phone() -> None:
    queue = [trial(f"m{i}", "p0", sweep="mine") for i in range(9)] + [trial(f"y{i}", sweep="yours") for i in range(9)]
    order = [t.sweep for t in runs(scheduler(queue), [farm.phone("p0")])]
    assert all(set(order[i : i + 2]) == {"mine", "yours"} for i in range(0, 18, 2))


def test_priority_goes_first() -> None:
    queue = [trial(f"l{i}") for i in range(3)] + [trial(f"h{i}", sweep="urgent", priority=5) for i in range(3)]
    assert [t.sweep for t in runs(scheduler(queue), [farm.phone("p0")])] == ["urgent"] * 3 + ["s"] * 3


def test_a_phone_where_it_failed_comes_last() -> None:
    phones = [farm.phone("p0"), farm.phone("p1")]
    (first,) = scheduler([trial("t1", avoid=frozenset({"p0"}))]).assign(Floor(phones), 0.0)
    assert first[1].name == "p1"
    busy = Floor(phones, [Running("p1", False)])
    assert scheduler([trial("t1", avoid=frozenset({"p0"}))]).assign(busy, 0.0) == []
    (both,) = scheduler([trial("t1", avoid=frozenset({"p0", "p1"}))]).assign(busy, 0.0)
    assert both[1].name == "p0"


def test_a_cooling_phone_yields_to_another() -> None:
    hot = farm.phone("p0", state=DeviceState.COOLING, state_reason="41 °C")
    started = scheduler([trial("t1", "p0"), trial("t2")]).assign(Floor([hot, farm.phone("p1")]), 0.0)
    assert [(t.trial_id, d.name) for t, d in started] == [("t2", "p1")]


def test_a_free_trial_leaves_phones_to_those_bound_to_them() -> None:
    queue = [trial("free1"), trial("bound2", "p0")]
    started = scheduler(queue).assign(Floor([farm.phone("p0"), farm.phone("p1")]), 0.0)
    assert {(t.trial_id, d.name) for t, d in started} == {("free1", "p1"), ("bound2", "p0")}


def test_near_the_end_the_longest_go_first() -> None:
    durations = Durations()
    for i in range(6):
        durations.observe(Kind(config=f"c{i}"), "p9", 10.0 + i)
    queue = [trial(f"t{i}", kind=Kind(config=f"c{i}")) for i in range(6)]
    phones = [dataclasses.replace(farm.phone(f"p{i}"), kind="usb") for i in range(2)]
    started = scheduler(queue, durations).assign(Floor(phones), 0.0)
    assert Counter(t.trial_id for t, _ in started) == Counter(["t5", "t4"])
