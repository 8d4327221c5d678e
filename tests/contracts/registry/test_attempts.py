"""What the registry promises about attempts and leases, held against every backend."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from orchestrator.entities import (
    AttemptState,
    DeviceState,
    Sweep,
    TrialState,
)
from orchestrator.errors import ClaimLost, LeaseLost, RegistryError
from orchestrator.registry.contract import Registry
from tests.fakes import farm
from tests.fakes.farm import PHONE


def test_an_attempt_from_start_to_done(registry: Registry) -> None:
    farm.submit(registry, "t1")
    attempt = farm.run(registry, "t1")
    assert (attempt.trial_id, attempt.device, attempt.number, attempt.owner) == ("t1", PHONE, 1, "me")
    assert registry.trial("t1").state is TrialState.RUNNING
    assert registry.trial("t1").attempt_id == attempt.attempt_id
    assert [a.attempt_id for a in registry.running()] == [attempt.attempt_id]
    registry.finish_attempt(attempt, farm.done(attempt), TrialState.DONE, charged=False)
    trial = registry.trial("t1")
    assert (trial.state, trial.attempts, trial.device, trial.attempt_wall_s) == (TrialState.DONE, 1, PHONE, 2.5)
    assert trial.result == farm.done(attempt).result
    assert registry.rounds_jsonl("t1") == '{"round": 0}\n'
    assert registry.nodes_packed("t1") == "packed"
    assert registry.running() == []
    ended = registry.attempts("t1")[0]
    assert ended.state is AttemptState.DONE
    assert ended.started_at
    assert ended.ended_at
    assert ended.ended_at >= ended.started_at
    assert farm.kinds(registry, "id-s") == [
        "sweep_submitted",
        "attempt_started",
        "attempt_finished",
        "trial_done",
        "sweep_finished",
    ]


def test_a_failure_keeps_what_is_needed_to_understand_it(registry: Registry) -> None:
    farm.submit(registry, "t1")
    attempt = farm.run(registry, "t1")
    outcome = dataclasses.replace(farm.failed(attempt), log_tail="bad \0 byte")
    registry.finish_attempt(attempt, outcome, TrialState.WAITING, charged=True)
    kept = registry.attempts("t1")[0]
    assert (kept.state, kept.failure_kind, kept.charged) == (AttemptState.FAILED, "engine_error", True)
    assert kept.failure_message == "went engine_error"
    assert kept.log_tail.startswith("bad ")
    trial = registry.trial("t1")
    assert (trial.state, trial.charged_failures) == (TrialState.WAITING, 1)
    assert (registry.rounds_jsonl("t1"), registry.nodes_packed("t1")) == ("", "")


@pytest.mark.parametrize("state", [DeviceState.OFFLINE, DeviceState.QUARANTINED, DeviceState.RETIRED])
def test_a_phone_that_is_not_ready_gets_nothing(registry: Registry, state: DeviceState) -> None:
    farm.submit(registry, "t1")
    registry.set_device_state(PHONE, state)
    with pytest.raises(ClaimLost, match=state.value):
        farm.run(registry, "t1")
    assert registry.trial("t1").state is TrialState.WAITING


def test_a_trial_runs_once_and_a_phone_runs_one(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    registry.put_device(farm.phone("pixel8"))
    farm.run(registry, "t1")
    with pytest.raises(ClaimLost):
        farm.run(registry, "t1", "pixel8")
    with pytest.raises(ClaimLost):
        farm.run(registry, "t2")
    with pytest.raises(ClaimLost):
        farm.run(registry, "t2", "pixel8")  # bound to PHONE
    assert registry.trial("t2").attempts == 0


def test_tokens_grow_with_every_lease(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    first = farm.finish(registry, "t1")
    second = farm.run(registry, "t2")
    third = registry.adopt(second.attempt_id, "me", 60)
    assert first.token < second.token < third.token


def test_a_stale_token_writes_nothing(registry: Registry) -> None:
    farm.submit(registry, "t1")
    old = farm.run(registry, "t1")
    new = registry.adopt(old.attempt_id, "me", 60)
    events = len(registry.events())
    with pytest.raises(LeaseLost):
        registry.finish_attempt(old, farm.done(old), TrialState.DONE, charged=False)
    assert registry.renew([old, new], 60) == [old.attempt_id]
    assert registry.trial("t1").state is TrialState.RUNNING
    assert len(registry.events()) == events
    registry.finish_attempt(new, farm.done(new), TrialState.DONE, charged=False)
    with pytest.raises(LeaseLost):
        registry.finish_attempt(new, farm.failed(new), TrialState.FAILED, charged=True)
    assert registry.trial("t1").state is TrialState.DONE


def test_another_owner_adopts_only_an_expired_attempt(registry: Registry) -> None:
    farm.submit(registry, "t1")
    mine = farm.run(registry, "t1")
    assert [a.lease_expired for a in registry.running()] == [False]
    with pytest.raises(ClaimLost, match="me"):
        registry.adopt(mine.attempt_id, "other", 60)
    registry.renew([mine], 0)
    assert [a.lease_expired for a in registry.running()] == [True]
    theirs = registry.adopt(mine.attempt_id, "other", 60)
    assert theirs.owner == "other"
    assert registry.renew([mine], 60) == [mine.attempt_id]
    registry.finish_attempt(theirs, farm.done(theirs), TrialState.DONE, charged=False)
    with pytest.raises(ClaimLost):
        registry.adopt(mine.attempt_id, "me", 60)


def test_an_expired_lease_can_still_be_renewed_by_its_holder(registry: Registry) -> None:
    farm.submit(registry, "t1")
    attempt = farm.run(registry, "t1", ttl_s=0)
    assert registry.renew([attempt], 60) == []
    assert not registry.running()[0].lease_expired


def test_a_phone_whose_lease_expired_is_free_and_the_trial_waits_uncharged(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    lost = farm.run(registry, "t1", ttl_s=0)
    new = farm.run(registry, "t2")
    assert new.token > lost.token
    trial = registry.trial("t1")
    assert (trial.state, trial.charged_failures, trial.failure_kind) == (TrialState.WAITING, 0, "host_lost")
    with pytest.raises(LeaseLost):
        registry.finish_attempt(lost, farm.done(lost), TrialState.DONE, charged=False)


def test_timed_runs_share_no_host(registry: Registry) -> None:
    registry.put_device(farm.phone("pixel8"))
    registry.put_device(farm.phone("elsewhere", host="there"))
    alone: dict[str, Any] = {"schedule": {"exclusive_host": True}}
    specs = [farm.trial(t, device=None, **alone) for t in ("timed1", "timed2")] + [farm.trial("loose", device=None)]
    registry.submit(Sweep("id-s", "s"), specs)
    timed = farm.run(registry, "timed1")
    for other in ("timed2", "loose"):
        with pytest.raises(ClaimLost, match=f"{PHONE} is at work on host here"):
            farm.run(registry, other, "pixel8")
    farm.run(registry, "timed2", "elsewhere")
    registry.finish_attempt(timed, farm.done(timed), TrialState.DONE, charged=False)
    farm.run(registry, "loose", "pixel8")
    with pytest.raises(ClaimLost, match="pixel8 is at work"):
        registry.reserve(PHONE, "me", 60.0)


def test_cabled_phones_share_nothing(registry: Registry) -> None:
    for name in ("left", "right"):
        registry.put_device(dataclasses.replace(farm.phone(name), kind="tcp"))
    alone: dict[str, Any] = {"schedule": {"exclusive_host": True}}
    registry.submit(Sweep("id-s", "s"), [farm.trial(name, device=name, **alone) for name in ("left", "right")])
    farm.run(registry, "left", "left")
    farm.run(registry, "right", "right")


def test_recent_attempts_begin_anew_after_quarantine(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", "t3")
    farm.finish(registry, "t1", farm.failed, "failed")
    farm.finish(registry, "t2")
    assert [a.trial_id for a in registry.recent_attempts(PHONE, 5)] == ["t2", "t1"]
    registry.set_device_state(PHONE, DeviceState.QUARANTINED, "three in a row")
    assert [a.trial_id for a in registry.recent_attempts(PHONE, 1)] == ["t2"]
    registry.set_device_state(PHONE, DeviceState.READY)
    assert registry.recent_attempts(PHONE, 5) == []
    farm.finish(registry, "t3")
    assert [a.trial_id for a in registry.recent_attempts(PHONE, 5)] == ["t3"]


def test_what_is_known_later_is_merged_and_owed_once(registry: Registry) -> None:
    farm.submit(registry, "t1")
    farm.finish(registry, "t1")
    owed = len(registry.outbox(99))
    registry.set_derived("t1", {"speedup": 2.0}, {"exactness": "exact 3/3"})
    registry.set_derived("t1", {"speedup": 2.0}, {"exactness": "exact 3/3"})
    result = registry.trial("t1").result
    assert result is not None
    assert (result["metrics"], result["tags"]) == ({"tpot_s": 0.5, "speedup": 2.0}, {"exactness": "exact 3/3"})
    assert len(registry.outbox(99)) == owed + 1
    assert farm.kinds(registry, "id-s").count("trial_derived") == 1
    farm.submit(registry, "t2")
    with pytest.raises(RegistryError, match="waiting"):
        registry.set_derived("t2", {}, {})
