"""What the registry promises, held against every backend."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from orchestrator.entities import (
    AttemptState,
    DeviceState,
    FailureKind,
    FarmEvent,
    Sweep,
    TrialSpec,
    TrialState,
)
from orchestrator.errors import ClaimLost, LeaseLost, RegistryError, UnknownName
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.registry.models import LeaseRow
from orchestrator.registry.sql import SqlRegistry, open_registry
from tests.fakes import farm
from tests.fakes.farm import PHONE

Backend = Callable[[], Registry]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    if request.param == "memory":
        made: Registry = MemoryRegistry()
    elif request.param == "sqlite":
        made = open_registry(f"sqlite:///{tmp_path / 'registry.db'}")
    else:
        made = open_registry(request.getfixturevalue("postgres_url"))
    made.put_device(farm.phone())
    yield made
    made.close()


def kinds(registry: Registry, sweep_id: str | None = None) -> list[str]:
    return [e.kind for e in registry.events(sweep_id=sweep_id)]


# --- phones


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
    assert kinds(registry) == ["device_state"]


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


# --- sweeps and trials


def test_a_sweep_keeps_its_trials_in_order(registry: Registry) -> None:
    before = datetime.now(UTC)
    submission = registry.submit(Sweep("id-s", "s", record={"overrides": ["a=1"]}), [farm.trial(t) for t in "cab"])
    assert submission.queued == ("c", "a", "b")
    assert [t.spec.trial_id for t in registry.trials("id-s")] == ["c", "a", "b"]
    assert registry.trial("a").spec == farm.trial("a")
    assert registry.counts("id-s") == {TrialState.WAITING: 3}
    sweep = registry.sweep("s")
    assert sweep == registry.sweep("id-s") == submission.sweep
    assert sweep.record == {"overrides": ["a=1"]}
    assert sweep.created_at is not None
    assert abs(sweep.created_at - before) < timedelta(seconds=30)


def test_the_same_name_grows_the_sweep(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    again = registry.submit(Sweep("another-id", "s", record={"more": 1}), [farm.trial("t2"), farm.trial("t3")])
    assert again.sweep.sweep_id == "id-s"
    assert (again.queued, again.in_progress) == (("t3",), ("t2",))
    assert [t.spec.trial_id for t in registry.trials("id-s")] == ["t1", "t2", "t3"]
    assert [s.name for s in registry.sweeps()] == ["s"]
    assert registry.sweep("s").record == {"more": 1}


def test_sweeps_are_listed_newest_first(registry: Registry) -> None:
    for name in ("one", "two", "three"):
        farm.submit(registry, "t1", sweep=name)
    assert [s.name for s in registry.sweeps()] == ["three", "two", "one"]
    assert [s.name for s in registry.sweeps_of("t1")] == ["one", "two", "three"]


def test_a_done_trial_is_reused_by_another_sweep(registry: Registry) -> None:
    farm.submit(registry, "t1", sweep="first")
    farm.finish(registry, "t1")
    registry.outbox_done([item.item_id for item in registry.outbox(99)])
    second = farm.submit(registry, "t1", "t2", sweep="second")
    assert (second.reused, second.queued) == (("t1",), ("t2",))
    assert [t.state for t in registry.trials("id-second")] == [TrialState.DONE, TrialState.WAITING]
    owed = [(i.kind, i.sweep_id, i.trial_id) for i in registry.outbox(99)]
    assert sorted(owed, key=str) == [("sweep", "id-second", None), ("trial", "id-second", "t1")]


def test_a_sweep_of_done_trials_is_finished_at_once(registry: Registry) -> None:
    farm.submit(registry, "t1")
    farm.finish(registry, "t1")
    again = farm.submit(registry, "t1")
    assert [e.kind for e in registry.events(again.event_id, "id-s")] == ["sweep_finished"]


def test_a_failed_trial_waits_again_when_submitted_again(registry: Registry) -> None:
    farm.submit(registry, "t1")
    farm.finish(registry, "t1", farm.failed, "failed")
    failed = registry.trial("t1")
    assert (failed.state, failed.charged_failures, failed.failure_kind) == (TrialState.FAILED, 1, "engine_error")
    renewed = farm.trial("t1", extra="new")
    assert registry.submit(Sweep("id-s", "s"), [renewed]).queued == ("t1",)
    again = registry.trial("t1")
    assert again.spec == renewed
    assert (again.state, again.attempts, again.earlier_attempts) == (TrialState.WAITING, 1, 1)
    assert (again.charged_failures, again.failure_kind, again.failure_message) == (0, None, None)
    assert farm.run(registry, "t1").number == 2


def test_a_trial_given_twice_counts_once(registry: Registry) -> None:
    assert farm.submit(registry, "t1", "t1").queued == ("t1",)
    assert len(registry.trials("id-s")) == 1


def test_the_whole_queue_names_who_wants_each_trial(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", sweep="first")
    farm.submit(registry, "t2", "t3", "t4", sweep="second")
    farm.run(registry, "t3")

    def queue(*args: Any, **kwargs: Any) -> list[tuple[str, str]]:
        return [(one.trial.spec.trial_id, one.sweep_id) for one in registry.queue(*args, **kwargs)]

    everything = [("t1", "id-first"), ("t2", "id-first"), ("t4", "id-second")]
    assert queue() == everything
    assert queue(sweep_id="id-second") == everything[1:]
    assert queue(["t4", "t3", "t1"]) == [everything[0], everything[2]]
    assert registry.queue_length() == 3
    numbers = [one.number for one in registry.queue()]
    assert numbers == sorted(set(numbers))
    assert all(one.trial.spec.job == {} and one.trial.spec.config for one in registry.queue())
    registry.cancel("id-first")
    assert queue() == [("t2", "id-second"), ("t4", "id-second")]


def test_how_long_trials_lasted_is_known_of_the_last_ones(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", "t3", "t4")
    farm.finish(registry, "t1")
    farm.finish(registry, "t2", farm.failed, "failed")
    farm.finish(registry, "t3")
    labels = registry.trial("t3").spec.labels
    assert registry.lasted(9) == [(labels, PHONE, 2.5)] * 2
    assert len(registry.lasted(1)) == 1


def test_reasons_are_kept_while_a_trial_waits(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    farm.run(registry, "t2")
    registry.set_waiting_reason({"t1": "phone is offline", "t2": "late", "gone": "no such"})
    assert [t.reason for t in registry.trials("id-s")] == ["phone is offline", ""]
    farm_attempts = registry.attempts("t2")
    registry.finish_attempt(farm_attempts[0], farm.done(farm_attempts[0]), TrialState.DONE, charged=False)
    farm.run(registry, "t1")
    assert registry.trial("t1").reason == ""


def compared_with(registry: Registry, trial_id: str) -> list[str]:
    return [t.spec.trial_id for t in registry.baselines(registry.trial(trial_id))]


def test_baselines_are_those_of_the_key_and_the_plainest_of_the_text(registry: Registry) -> None:
    specs = [
        farm.variant("chain", "b1"),
        farm.variant("plain-b1", "b1", strategy="autoregressive"),
        farm.variant("read-b1", "b1", strategy="autoregressive"),
        farm.variant("late", "b9", strategy="autoregressive", storage="resident", repeat=5),
        farm.variant("first", "b2", strategy="autoregressive", storage="resident", repeat=1),
        farm.variant("other-text", "b3", strategy="autoregressive", storage="resident", reference="other"),
        farm.variant("waits", "b1", strategy="autoregressive", storage="resident"),
    ]
    registry.submit(Sweep("id-s", "s"), specs)
    for spec in specs[:-1]:
        farm.finish(registry, spec.trial_id)
    assert compared_with(registry, "chain") == ["plain-b1", "read-b1", "first"]
    assert compared_with(registry, "first") == ["first"]
    assert all(t.result is not None for t in registry.baselines(registry.trial("chain")))


def test_baselines_are_of_the_phone_that_a_trial_ran_on(registry: Registry) -> None:
    registry.put_device(farm.phone("pixel8"))
    specs = [farm.variant(f"{s}-{p}", "b", strategy=s, device=None) for s in ("chain", "autoregressive") for p in "op"]
    registry.submit(Sweep("id-s", "s"), specs)
    for spec in specs:
        phone = PHONE if spec.trial_id.endswith("o") else "pixel8"
        attempt = farm.run(registry, spec.trial_id, phone)
        registry.finish_attempt(attempt, farm.done(attempt), TrialState.DONE, charged=False)
    assert compared_with(registry, "chain-o") == ["autoregressive-o"]
    assert registry.compare_again(registry.trial("autoregressive-p")) == 0  # nothing was compared before


def test_a_baseline_lets_those_be_compared_again_that_it_may_complete(registry: Registry) -> None:
    baseline = partial(farm.variant, strategy="autoregressive")
    specs = [
        farm.variant("chain-1", "b1"),
        farm.variant("chain-2", "b2"),
        farm.variant("other-text", "b1", reference="other"),
        farm.variant("waits", "b1"),
        baseline("first", "b1"),
        baseline("second", "b2", repeat=1),
        baseline("resident", "b3", storage="resident", repeat=7),
    ]
    registry.submit(Sweep("id-s", "s"), specs)

    def ends(trial_id: str) -> set[str]:
        farm.finish(registry, trial_id)
        registry.set_derived(trial_id, {}, {})
        registry.compare_again(registry.trial(trial_id))
        found = {t.spec.trial_id for t in registry.underived(99)}
        for other in found:
            registry.set_derived(other, {}, {})
        return found

    for trial_id in ("chain-1", "chain-2", "other-text"):
        farm.finish(registry, trial_id)
        registry.set_derived(trial_id, {}, {})
    assert ends("first") == {"chain-1", "chain-2"}
    assert ends("second") == {"chain-2"}
    assert ends("resident") == {"chain-1", "chain-2", "first", "second"}


def test_a_done_trial_is_underived_until_it_was_compared(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", "t3")
    for trial_id in ("t2", "t1"):
        farm.finish(registry, trial_id)
    farm.finish(registry, "t3", farm.failed, "failed")
    assert [t.spec.trial_id for t in registry.underived(9)] == ["t1", "t2"]
    registry.set_derived("t1", {}, {})
    (left,) = registry.underived(9)
    assert left.result is not None


def test_a_rerun_measures_anew_and_keeps_what_was_known(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    first = farm.finish(registry, "t1")
    again = registry.submit(Sweep("id-s", "s"), [farm.trial("t1"), farm.trial("t2")], rerun=True)
    assert (again.queued, again.reused, again.in_progress) == (("t1",), (), ("t2",))
    waiting = registry.trial("t1")
    assert (waiting.state, waiting.result, waiting.attempts) == (TrialState.WAITING, None, 1)
    assert registry.underived(9) == []
    (note,) = (e for e in registry.events() if e.kind == "trial_rerun")
    assert (note.attempt_id, note.data["metrics"]) == (first.attempt_id, {"tpot_s": 0.5})
    second = farm.run(registry, "t1")
    registry.finish_attempt(second, farm.done(second, tpot_s=0.25), TrialState.DONE, charged=False)
    assert (registry.trial("t1").result or {})["metrics"] == {"tpot_s": 0.25}
    assert [t.spec.trial_id for t in registry.underived(9)] == ["t1"]
    assert len(registry.attempts("t1")) == 2


def test_a_rerun_that_fails_shows_no_older_result(registry: Registry) -> None:
    farm.submit(registry, "t1")
    farm.finish(registry, "t1")
    registry.submit(Sweep("id-s", "s"), [farm.trial("t1")], rerun=True)
    farm.finish(registry, "t1", farm.failed, "failed")
    assert (registry.trial("t1").state, registry.trial("t1").result) == (TrialState.FAILED, None)
    assert farm.submit(registry, "t1").queued == ("t1",)


def test_unfinished_sweeps_are_listed_oldest_first(registry: Registry) -> None:
    farm.submit(registry, "t1", sweep="one")
    farm.submit(registry, "t2", sweep="two")
    farm.submit(registry, "t1", "t2", sweep="three")
    assert [s.name for s in registry.unfinished()] == ["one", "two", "three"]
    farm.finish(registry, "t1")
    assert [s.name for s in registry.unfinished()] == ["two", "three"]
    registry.cancel("two")
    registry.cancel("three")
    assert registry.unfinished() == []


# --- cancelling


def test_cancel_ends_what_waits_and_asks_what_runs_to_stop(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", "t3")
    farm.finish(registry, "t1")
    running = farm.run(registry, "t2")
    stopped = registry.cancel("id-s")
    assert [a.attempt_id for a in stopped] == [running.attempt_id]
    assert [a.cancel_requested for a in registry.running()] == [True]
    assert [t.state for t in registry.trials("id-s")] == [TrialState.DONE, TrialState.RUNNING, TrialState.CANCELLED]
    assert [a.attempt_id for a in registry.cancel("s")] == [running.attempt_id]
    assert kinds(registry, "id-s").count("sweep_cancelled") == 1
    registry.finish_attempt(running, farm.failed(running, FailureKind.CANCELLED), TrialState.WAITING, charged=False)
    assert registry.trial("t2").state is TrialState.CANCELLED
    assert kinds(registry, "id-s")[-2:] == ["trial_cancelled", "sweep_finished"]


def test_cancel_leaves_what_another_sweep_wants(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", sweep="mine")
    farm.submit(registry, "t2", sweep="theirs")
    running = farm.run(registry, "t2")
    assert registry.cancel("id-mine") == []
    assert not registry.running()[0].cancel_requested
    assert registry.trial("t1").state is TrialState.CANCELLED
    assert [a.attempt_id for a in registry.cancel("id-theirs")] == [running.attempt_id]


def test_a_trial_wanted_again_is_not_cancelled(registry: Registry) -> None:
    farm.submit(registry, "t1")
    attempt = farm.run(registry, "t1")
    registry.cancel("id-s")
    assert farm.submit(registry, "t1", sweep="other").in_progress == ("t1",)
    registry.finish_attempt(attempt, farm.failed(attempt, FailureKind.CANCELLED), TrialState.CANCELLED, charged=False)
    assert registry.trial("t1").state is TrialState.WAITING


def test_a_cancelled_sweep_can_be_submitted_again(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    registry.cancel("id-s")
    assert farm.submit(registry, "t1", "t2").queued == ("t1", "t2")
    farm.finish(registry, "t1")
    assert kinds(registry, "id-s").count("sweep_finished") == 1  # of the cancelling
    farm.finish(registry, "t2")
    assert kinds(registry, "id-s").count("sweep_finished") == 2


def limited(registry: Registry, name: str, most: int | None, *trial_ids: str) -> None:
    registry.submit(Sweep(f"id-{name}", name, max_failures=most), [farm.trial(t) for t in trial_ids])


def test_so_many_failures_cancel_the_rest_of_the_sweep_and_of_no_other(registry: Registry) -> None:
    limited(registry, "strict", 2, "t1", "t2", "t3", "t4")
    limited(registry, "patient", None, "t1", "t3")
    farm.finish(registry, "t1", farm.failed, "failed")
    assert registry.counts("id-strict") == {TrialState.FAILED: 1, TrialState.WAITING: 3}
    farm.finish(registry, "t2", farm.failed, "failed")
    assert [t.state.value for t in registry.trials("id-strict")] == ["failed", "failed", "waiting", "cancelled"]
    assert kinds(registry, "id-strict").count("sweep_cancelled") == 1
    assert [s.name for s in registry.unfinished()] == ["strict", "patient"]
    farm.finish(registry, "t3")
    assert registry.unfinished() == []


def test_failures_count_anew_when_their_trials_are_submitted_again(registry: Registry) -> None:
    limited(registry, "strict", 2, "t1", "t2", "t3")
    farm.finish(registry, "t1", farm.failed, "failed")
    limited(registry, "strict", 2, "t1", "t2", "t3")
    farm.finish(registry, "t2", farm.failed, "failed")
    assert registry.counts("id-strict") == {TrialState.FAILED: 1, TrialState.WAITING: 2}
    assert registry.sweep("strict").max_failures == 2


def test_what_runs_is_asked_to_stop_when_too_much_failed(registry: Registry) -> None:
    registry.put_device(farm.phone("pixel8"))
    specs = [farm.trial("t1"), farm.trial("t2", device="pixel8"), farm.trial("t3")]
    registry.submit(Sweep("id-s", "s", max_failures=1), specs)
    farm.run(registry, "t2", "pixel8")
    farm.finish(registry, "t1", farm.failed, "failed")
    assert [a.cancel_requested for a in registry.running()] == [True]
    assert registry.trial("t3").state is TrialState.CANCELLED


# --- phones held for something else, and what passes cost there


def test_a_reserved_phone_is_busy_and_takes_no_trial(registry: Registry) -> None:
    farm.submit(registry, "t1")
    held = registry.reserve(PHONE, "me", 60)
    assert registry.device(PHONE).state is DeviceState.BUSY
    assert [d.state for d in registry.devices() if d.name == PHONE] == [DeviceState.BUSY]
    assert registry.running() == []
    with pytest.raises(ClaimLost, match="leased"):
        farm.run(registry, "t1")
    with pytest.raises(ClaimLost, match="leased"):
        registry.reserve(PHONE, "other", 60)
    registry.release(held)
    assert registry.device(PHONE).state is DeviceState.READY
    farm.run(registry, "t1")


def test_a_busy_phone_cannot_be_reserved(registry: Registry) -> None:
    farm.submit(registry, "t1")
    farm.run(registry, "t1")
    with pytest.raises(ClaimLost, match="leased to attempt"):
        registry.reserve(PHONE, "me", 60)
    registry.set_device_state(PHONE, DeviceState.OFFLINE)
    with pytest.raises(ClaimLost, match="offline"):
        registry.reserve(PHONE, "me", 60)
    with pytest.raises(UnknownName, match="nobody"):
        registry.reserve("nobody", "me", 60)


def test_a_reservation_that_ran_out_binds_nobody(registry: Registry) -> None:
    farm.submit(registry, "t1")
    held = registry.reserve(PHONE, "me", -1)
    assert registry.device(PHONE).state is DeviceState.READY
    attempt = farm.run(registry, "t1")
    assert registry.renew([held], 60) == [held.attempt_id]
    registry.release(held)
    assert [a.attempt_id for a in registry.running()] == [attempt.attempt_id]


def test_a_reservation_is_renewed(registry: Registry) -> None:
    held = registry.reserve(PHONE, "me", -1)
    assert registry.renew([held], 60) == []
    assert registry.device(PHONE).state is DeviceState.BUSY


def test_costs_are_kept_by_phone_and_key(registry: Registry) -> None:
    assert registry.costs(PHONE, "k") is None
    registry.put_costs(PHONE, "k", {"threads": 1})
    registry.put_costs(PHONE, "k", {"threads": 2})
    assert registry.costs(PHONE, "k") == {"threads": 2}
    assert registry.costs(PHONE, "other") is None
    assert registry.costs("nobody", "k") is None
    with pytest.raises(UnknownName, match="nobody"):
        registry.put_costs("nobody", "k", {})


# --- attempts and leases


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
    assert kinds(registry, "id-s") == [
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


def jump(registry: Registry, seconds: float) -> None:
    """What the registry's clock being set forward (back, if negative) does to the leases that it gave."""
    if isinstance(registry, MemoryRegistry):
        for lease in registry._leases.values():
            lease.until -= seconds
    else:
        assert isinstance(registry, SqlRegistry)
        with registry._db.write() as session:
            session.execute(update(LeaseRow).values(expires_at=LeaseRow.expires_at - seconds))


def test_a_clock_set_forward_costs_at_most_the_lease(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    mine = farm.run(registry, "t1")
    jump(registry, 86_400)
    assert registry.running()[0].lease_expired
    assert registry.renew([mine], 60) == []  # nobody took it: still ours
    assert not registry.running()[0].lease_expired
    jump(registry, 86_400)
    theirs = registry.adopt(mine.attempt_id, "other", 60)
    assert registry.renew([mine], 60) == [mine.attempt_id]
    with pytest.raises(LeaseLost):
        registry.finish_attempt(mine, farm.done(mine), TrialState.DONE, charged=False)
    registry.finish_attempt(theirs, farm.done(theirs), TrialState.DONE, charged=False)
    assert registry.trial("t1").attempts == 1


def test_a_clock_set_back_makes_no_lease_endless(registry: Registry) -> None:
    farm.submit(registry, "t1")
    lost = farm.run(registry, "t1")
    jump(registry, -30)
    assert not registry.running()[0].lease_expired
    jump(registry, -86_400)
    assert registry.running()[0].lease_expired
    assert registry.adopt(lost.attempt_id, "other", 60).owner == "other"
    registry.renew(registry.running(), 60)
    assert not registry.running()[0].lease_expired


def test_a_reservation_is_not_endless_either(registry: Registry) -> None:
    registry.reserve(PHONE, "me", 60)
    jump(registry, -86_400)
    assert registry.device(PHONE).state is DeviceState.READY
    registry.reserve(PHONE, "other", 60)


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
    assert kinds(registry, "id-s").count("trial_derived") == 1
    farm.submit(registry, "t2")
    with pytest.raises(RegistryError, match="waiting"):
        registry.set_derived("t2", {}, {})


# --- events and outbox


def test_events_are_in_order_and_of_one_sweep(registry: Registry) -> None:
    submission = farm.submit(registry, "t1", sweep="mine")
    farm.submit(registry, "t2", sweep="other")
    attempt = farm.run(registry, "t1")
    registry.add_events(
        [FarmEvent("progress", trial_id="t1", attempt_id=attempt.attempt_id, data={"n": i}) for i in (1, 2)]
    )
    mine = registry.events(sweep_id="id-mine")
    assert [e.kind for e in mine] == ["sweep_submitted", "attempt_started", "progress", "progress"]
    ids = [e.event_id for e in mine]
    assert ids == sorted(set(ids))
    assert all(e.at for e in mine)
    later = registry.events(submission.event_id, "id-mine", limit=2)
    assert [e.kind for e in later] == ["attempt_started", "progress"]
    assert [e.data.get("n") for e in registry.events(later[-1].event_id, "id-mine")] == [2]
    assert len(registry.events()) == 6
    assert registry.last_event_id() == registry.events()[-1].event_id


def test_the_outbox_keeps_what_is_owed(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", sweep="a")
    farm.submit(registry, "t1", sweep="b")
    farm.finish(registry, "t1", farm.failed, "failed")
    owed = [(i.kind, i.sweep_id, i.trial_id, i.payload) for i in registry.outbox(99)]
    assert owed[:2] == [("sweep", f"id-{s}", None, {"event": "submitted"}) for s in "ab"]
    assert [o for o in owed if o[0] == "trial"] == [("trial", f"id-{s}", "t1", {"state": "failed"}) for s in "ab"]
    assert owed[-1] == ("sweep", "id-b", None, {"event": "finished"})
    delivered = [item.item_id for item in registry.outbox(2)]
    registry.outbox_done(delivered)
    registry.outbox_done(delivered)
    registry.outbox_done([])
    assert len(registry.outbox(99)) == len(owed) - 2


def test_run_ids_are_kept(registry: Registry) -> None:
    assert registry.tracking_run_id("s", "t") is None
    registry.set_tracking_run_id("s", "t", "run1")
    registry.set_tracking_run_id("s", None, "run2")
    registry.set_tracking_run_id("s", "t", "run3")
    assert (registry.tracking_run_id("s", "t"), registry.tracking_run_id("s", None)) == ("run3", "run2")


# --- many at once


def test_many_threads_run_every_trial_exactly_once(registry: Registry) -> None:
    phones = [f"p{i}" for i in range(4)]
    for name in phones:
        registry.put_device(farm.phone(name))
    registry.submit(Sweep("id-s", "s"), [farm.trial(f"t{i}", device=None) for i in range(40)])
    with ThreadPoolExecutor(8) as pool:
        finished = list(chain.from_iterable(pool.map(partial(_work, registry), phones * 2)))
    assert sorted(finished) == sorted(f"t{i}" for i in range(40))
    assert registry.counts("id-s") == {TrialState.DONE: 40}
    assert all(t.attempts == 1 for t in registry.trials("id-s"))
    assert kinds(registry).count("sweep_finished") == 1


def _work(registry: Registry, phone: str) -> list[str]:
    """Two workers share each phone: what one leases the other does not get."""
    mine = []
    while queue := registry.queue()[:3]:
        for trial in [one.trial for one in queue]:
            try:
                attempt = farm.run(registry, trial.spec.trial_id, phone)
            except ClaimLost:
                continue
            registry.finish_attempt(attempt, farm.done(attempt), TrialState.DONE, charged=False)
            mine.append(trial.spec.trial_id)
    return mine


def test_one_of_many_claimers_wins(registry: Registry) -> None:
    phones = [f"p{i}" for i in range(8)]
    for name in phones:
        registry.put_device(farm.phone(name))
    registry.submit(Sweep("id-s", "s"), [farm.trial("t1", device=None)])
    start = threading.Barrier(len(phones))

    def claim(phone: str) -> bool:
        start.wait(30)
        try:
            farm.run(registry, "t1", phone)
        except ClaimLost:
            return False
        return True

    with ThreadPoolExecutor(len(phones)) as pool:
        assert sum(pool.map(claim, phones)) == 1
    assert len(registry.running()) == 1


def test_many_claimers_put_one_timed_run_on_a_host(registry: Registry) -> None:
    phones = [f"p{i}" for i in range(6)]
    for name in phones:
        registry.put_device(farm.phone(name))
    alone: dict[str, Any] = {"schedule": {"exclusive_host": True}}
    registry.submit(Sweep("id-s", "s"), [farm.trial(name, device=name, **alone) for name in phones])
    start = threading.Barrier(len(phones))

    def claim(phone: str) -> bool:
        start.wait(30)
        try:
            farm.run(registry, phone, phone)
        except ClaimLost:
            return False
        return True

    with ThreadPoolExecutor(len(phones)) as pool:
        assert sum(pool.map(claim, phones)) == 1


def test_merging_from_many_threads_loses_nothing(registry: Registry) -> None:
    farm.submit(registry, "t1")
    farm.finish(registry, "t1")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: registry.set_derived("t1", {f"m{i}": float(i)}, {}), range(40)))
    result = registry.trial("t1").result
    assert result is not None
    assert len(result["metrics"]) == 41
