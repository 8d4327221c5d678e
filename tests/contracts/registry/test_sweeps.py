"""What the registry promises about sweeps and trials, held against every backend."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.entities import (
    Sweep,
    TrialState,
)
from orchestrator.registry.contract import Registry
from tests.fakes import farm
from tests.fakes.farm import PHONE


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
