"""Properties of the choice over random farms and queues, and its words."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.entities import Device, DeviceState, Trial, TrialState
from orchestrator.scheduling.choose import Occupied, candidates_of, choose, exclusive
from tests.fakes import farm

NAMES = [f"p{i}" for i in range(5)]
STATES = [DeviceState.READY] * 4 + [DeviceState.BUSY, DeviceState.OFFLINE, DeviceState.QUARANTINED]


@st.composite
def devices(draw: st.DrawFn) -> list[Device]:
    return [
        farm.phone(
            name,
            state=draw(st.sampled_from(STATES)),
            host=draw(st.sampled_from(["h0", "h1"])),
            tags=tuple(draw(st.sets(st.sampled_from(["x", "y"])))),
        )
        if draw(st.booleans())
        else dataclasses.replace(farm.phone(name, host=draw(st.sampled_from(["h0", "h1"]))), kind="usb")
        for name in NAMES
    ]


def trial(trial_id: str, device: str | None = None, phones: str = "any", alone: bool = False) -> Trial:
    spec = farm.trial(trial_id, device, phones=phones, schedule={"exclusive_host": alone})
    return Trial(spec, TrialState.WAITING, 0, 0, None)


@st.composite
def queues(draw: st.DrawFn) -> list[Trial]:
    return [
        trial(
            f"t{i}",
            draw(st.sampled_from([None, *NAMES, "gone"])),
            draw(st.sampled_from(["any", "any:tag:x", "any:p0,p1", "any:tag:none"])),
            draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 12)))
    ]


occupied = st.lists(
    st.builds(Occupied, st.sampled_from(NAMES), st.booleans()), max_size=3, unique_by=lambda o: o.device
)


@given(queues(), devices(), occupied)
def test_every_trial_starts_or_says_why_not(queue: list[Trial], phones: list[Device], running: list[Occupied]) -> None:
    plan = choose(queue, phones, running, {})
    started = [t.spec.trial_id for t, _ in plan.start]
    assert sorted([*started, *plan.reasons]) == sorted(t.spec.trial_id for t in queue)
    assert all(plan.reasons.values())


@given(queues(), devices(), occupied)
def test_only_free_phones_that_suit_get_one_trial_each(
    queue: list[Trial], phones: list[Device], running: list[Occupied]
) -> None:
    plan = choose(queue, phones, running, {})
    names = [d.name for _, d in plan.start]
    assert len(set(names)) == len(names)
    assert not {o.device for o in running}.intersection(names)
    for chosen, phone in plan.start:
        assert phone.state is DeviceState.READY
        assert phone in candidates_of(chosen, phones)


@given(queues(), devices(), occupied)
def test_a_timed_run_has_its_host_for_itself(queue: list[Trial], phones: list[Device], running: list[Occupied]) -> None:
    by_name = {d.name: d for d in phones}
    at_work = [(by_name[o.device], o.exclusive) for o in running]
    started = [(d, exclusive(t)) for t, d in choose(queue, phones, running, {}).start]
    for host in ("h0", "h1"):
        here = [alone for d, alone in at_work + started if d.simulated and d.host == host]
        added = [alone for d, alone in started if d.simulated and d.host == host]
        assert not added or len(here) == 1 or not any(here)


@given(queues(), devices(), occupied)
def test_nothing_that_could_start_is_held_up(queue: list[Trial], phones: list[Device], running: list[Occupied]) -> None:
    """Whoever waits could not start even alone, after what was started: nobody ahead in the queue blocks the way."""
    plan = choose(queue, phones, running, {})
    after = running + [Occupied(d.name, exclusive(t)) for t, d in plan.start]
    left = [t for t in queue if t.spec.trial_id in plan.reasons]
    assert all(choose([t], phones, after, {}).start == [] for t in left)


@given(queues(), devices(), st.randoms())
def test_the_choice_is_the_same_every_time(queue: list[Trial], phones: list[Device], random: st.DataObject) -> None:
    shuffled = list(phones)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # a Random
    assert choose(queue, phones, [], {}) == choose(queue, shuffled, [], {})


def test_a_phone_where_it_failed_comes_last() -> None:
    phones = [farm.phone("p0"), farm.phone("p1")]
    avoid = {"t1": frozenset({"p0"}), "t2": frozenset({"p0", "p1"})}
    assert [d.name for _, d in choose([trial("t1"), trial("t2")], phones, [], avoid).start] == ["p1", "p0"]


def test_a_free_trial_leaves_phones_to_those_bound_to_them() -> None:
    phones = [farm.phone("p0"), farm.phone("p1")]
    plan = choose([trial("free"), trial("bound", "p0")], phones, [], {})
    assert [(t.spec.trial_id, d.name) for t, d in plan.start] == [("free", "p1"), ("bound", "p0")]


def test_reasons_say_what_a_person_wants_to_know() -> None:
    phones = [
        farm.phone("p0"),
        farm.phone("p1", state=DeviceState.OFFLINE, state_reason="no answer for 30 s"),
        farm.phone("p2", state=DeviceState.QUARANTINED),
    ]
    queue = [
        trial("busy", "p0"),
        trial("offline", "p1"),
        trial("quarantined", "p2"),
        trial("gone", "p9"),
        trial("none", phones="any:soc:none"),
        trial("any"),
        trial("both", phones="any:p1,p2"),
    ]
    assert choose(queue, phones, [Occupied("p0", False)], {}).reasons == {
        "busy": "phone p0 is busy",
        "offline": "phone p1 is offline: no answer for 30 s",
        "quarantined": "phone p2 is quarantined",
        "gone": "phone p9 is not registered",
        "none": "no phone matches phones=any:soc:none",
        "any": "none of 3 phones is free: phone p0 is busy; phone p1 is offline: no answer for 30 s; "
        "phone p2 is quarantined",
        "both": "none of 2 phones is free: phone p1 is offline: no answer for 30 s; phone p2 is quarantined",
    }
    timed = [trial("t1", "p0", alone=True), trial("t2", phones="any:p0,p3", alone=True)]
    others = [farm.phone("p0"), farm.phone("p3"), farm.phone("p4")]
    reasons = choose(timed, others, [Occupied("p4", True)], {}).reasons
    assert reasons == dict.fromkeys(["t1", "t2"], "another timed run on host here")
    busy = [Occupied("p0", False), Occupied("p3", False), Occupied("p4", False)]
    assert choose([trial("t")], others, busy, {}).reasons == {"t": "all 3 phones are busy"}


def test_real_phones_do_not_share_their_hosts_cores() -> None:
    phones = [dataclasses.replace(farm.phone(f"p{i}"), kind="usb") for i in range(2)]
    queue = [trial(f"t{i}", f"p{i}", alone=True) for i in range(2)]
    assert len(choose(queue, phones, [], {}).start) == 2
