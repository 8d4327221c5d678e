"""What the registry promises about phones, held against every backend."""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator.entities import (
    DeviceState,
    FarmEvent,
    Sweep,
    TrialSpec,
    TrialState,
)
from orchestrator.errors import UnknownName
from orchestrator.registry.contract import Registry
from tests.fakes import farm
from tests.fakes.farm import PHONE


def test_wanted_packs_are_those_of_trials_that_wait_or_run(registry: Registry) -> None:
    def spec(name: str, target: str, draft: str | None) -> TrialSpec:
        made = farm.trial(name)
        return dataclasses.replace(made, job={**made.job, "target_pack": target, "draft_pack": draft})

    specs = [spec("done", "old", "odd"), spec("running", "T", None), spec("waiting", "T", "D")]
    registry.submit(Sweep("id-s", "s"), specs)
    farm.finish(registry, "done")
    farm.run(registry, "running")
    assert registry.wanted_packs() == {"T", "D"}


def test_a_phone_comes_back_as_it_was_put(registry: Registry) -> None:
    phone = farm.phone("pixel8", tags=("bench", "left"), facts={"soc": "GS301", "ram_mb": 8000, "cores": [1, 2]})
    registry.put_device(phone)
    assert registry.device("pixel8") == phone
    assert [d.name for d in registry.devices()] == [PHONE, "pixel8"]


def test_putting_a_phone_again_replaces_it(registry: Registry) -> None:
    registry.put_device(dataclasses.replace(farm.phone(), address="tcp:127.0.0.1:9", facts={"soc": "other"}))
    assert registry.device(PHONE).address == "tcp:127.0.0.1:9"
    assert len(registry.devices()) == 1
    assert farm.kinds(registry) == ["device_state"]


def test_unknown_names_suggest_close_ones(registry: Registry) -> None:
    farm.submit(registry, "t1", sweep="friday")
    with pytest.raises(UnknownName, match="oneplus21") as phone:
        registry.device("oneplus21")
    assert PHONE in phone.value.remedy
    with pytest.raises(UnknownName, match="fridy") as sweep:
        registry.sweep("fridy")
    assert "friday" in sweep.value.remedy
    with pytest.raises(UnknownName):
        registry.trial("nothing")


def test_a_state_is_noted_once(registry: Registry) -> None:
    registry.set_device_state(PHONE, DeviceState.OFFLINE, "no answer")
    registry.set_device_state(PHONE, DeviceState.OFFLINE, "no answer")
    assert registry.device(PHONE).state_reason == "no answer"
    assert [e.data for e in registry.events()[1:]] == [{"state": "offline", "reason": "no answer"}]


def test_a_state_is_only_left_for_another_from_where_it_was_seen(registry: Registry) -> None:
    registry.set_device_state(PHONE, DeviceState.RETIRED, "sold")
    assert not registry.set_device_state(PHONE, DeviceState.READY, "", only_from=(DeviceState.READY, DeviceState.BUSY))
    assert registry.device(PHONE).state is DeviceState.RETIRED
    assert registry.set_device_state(PHONE, DeviceState.READY, "", only_from=(DeviceState.RETIRED,))
    assert registry.set_device_state(PHONE, DeviceState.OFFLINE, "", only_from=(DeviceState.BUSY,)), "ready is stored"


def test_a_phones_history_has_reasons_and_times(registry: Registry) -> None:
    registry.put_device(farm.phone("other"))
    for state, reason in (
        (DeviceState.OFFLINE, "no answer"),
        (DeviceState.OFFLINE, "refused"),
        (DeviceState.READY, ""),
    ):
        registry.set_device_state(PHONE, state, reason)
    registry.add_event(FarmEvent("progress", device=PHONE))
    found = registry.device_history(PHONE, 3)
    assert [(e.data["state"], e.data["reason"]) for e in found] == [
        ("ready", ""),
        ("offline", "refused"),
        ("offline", "no answer"),
    ]
    assert found[0].at
    assert abs(registry.device(PHONE).state_since - found[0].at.timestamp()) < 60
    with pytest.raises(UnknownName):
        registry.device_history("nobody", 3)


def test_a_new_reason_does_not_make_a_state_younger(registry: Registry) -> None:
    registry.set_device_state(PHONE, DeviceState.OFFLINE, "no answer")
    since = registry.device(PHONE).state_since
    registry.set_device_state(PHONE, DeviceState.OFFLINE, "refused")
    assert registry.device(PHONE).state_since == since > 0


def test_a_leased_phone_is_busy_and_only_while_it_is(registry: Registry) -> None:
    farm.submit(registry, "t1")
    attempt = farm.run(registry, "t1")
    busy = registry.device(PHONE)
    assert busy.state is DeviceState.BUSY
    registry.put_device(dataclasses.replace(busy, address="tcp:127.0.0.1:9"))
    registry.finish_attempt(attempt, farm.done(attempt), TrialState.DONE, charged=False)
    assert registry.device(PHONE).state is DeviceState.READY
