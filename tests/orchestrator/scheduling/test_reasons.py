"""Why trials wait, as people read it."""

from __future__ import annotations

from typing import Any

from orchestrator.entities import Device, DeviceState
from orchestrator.scheduling.choose import Scheduler
from orchestrator.scheduling.floor import Floor, Running
from orchestrator.scheduling.reasons import EXPLAINED, changed_reasons
from orchestrator.scheduling.waiting import Waiting
from tests.fakes import farm


def reasons(phones: list[Device], running: list[Running], *trials: Waiting) -> dict[str, str]:
    scheduler, floor = Scheduler(), Floor(phones, running)
    for trial in trials:
        scheduler.queue.add(trial)
    scheduler.queue.look_at(floor.devices)
    return changed_reasons(scheduler.queue, floor)


def trial(trial_id: str, device: str | None = None, **changes: Any) -> Waiting:
    return Waiting(trial_id, 0, "s", device, **changes)


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
    assert reasons(phones, [Running("p0", False)], *queue) == {
        "busy": "phone p0 is busy",
        "offline": "phone p1 is offline: no answer for 30 s",
        "quarantined": "phone p2 is quarantined",
        "gone": "phone p9 is not registered",
        "none": "no phone matches phones=any:soc:none",
        "any": "none of 3 phones is free: phone p0 is busy; phone p1 is offline: no answer for 30 s; "
        "phone p2 is quarantined",
        "both": "none of 2 phones is free: phone p1 is offline: no answer for 30 s; phone p2 is quarantined",
    }


def test_a_shared_host_is_named_and_not_its_phones_in_turn() -> None:
    phones = [farm.phone("p0"), farm.phone("p3"), farm.phone("p4")]
    timed = [trial("t1", "p0", alone=True), trial("t2", phones="any:p0,p3", alone=True)]
    for busy in ("p0", "p4"):
        found = reasons(phones, [Running(busy, True)], *timed)
        assert found == dict.fromkeys(["t1", "t2"], "another timed run on host here")


def test_phones_that_are_all_busy_are_counted() -> None:
    phones = [farm.phone("p0"), farm.phone("p3")]
    busy = [Running("p0", False), Running("p3", False)]
    assert reasons(phones, busy, trial("t")) == {"t": "all 2 phones are busy"}


def test_only_what_changed_of_the_oldest_is_told() -> None:
    phones, busy = [farm.phone("p0")], [Running("p0", False)]
    known = trial("known", "p0", reason="phone p0 is busy")
    many = [trial(f"t{i}", "p0") for i in range(EXPLAINED)]
    told = reasons(phones, busy, known, *many)
    assert "known" not in told
    assert len(told) == EXPLAINED - 1
