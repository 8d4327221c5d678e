"""What the registry promises about cancelling, held against every backend."""

from __future__ import annotations

from orchestrator.entities import (
    FailureKind,
    Sweep,
    TrialState,
)
from orchestrator.registry.contract import Registry
from tests.fakes import farm


def test_cancel_ends_what_waits_and_asks_what_runs_to_stop(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2", "t3")
    farm.finish(registry, "t1")
    running = farm.run(registry, "t2")
    stopped = registry.cancel("id-s")
    assert [a.attempt_id for a in stopped] == [running.attempt_id]
    assert [a.cancel_requested for a in registry.running()] == [True]
    assert [t.state for t in registry.trials("id-s")] == [TrialState.DONE, TrialState.RUNNING, TrialState.CANCELLED]
    assert [a.attempt_id for a in registry.cancel("s")] == [running.attempt_id]
    assert farm.kinds(registry, "id-s").count("sweep_cancelled") == 1
    registry.finish_attempt(running, farm.failed(running, FailureKind.CANCELLED), TrialState.WAITING, charged=False)
    assert registry.trial("t2").state is TrialState.CANCELLED
    assert farm.kinds(registry, "id-s")[-2:] == ["trial_cancelled", "sweep_finished"]


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
    assert farm.kinds(registry, "id-s").count("sweep_finished") == 1  # of the cancelling
    farm.finish(registry, "t2")
    assert farm.kinds(registry, "id-s").count("sweep_finished") == 2


def limited(registry: Registry, name: str, most: int | None, *trial_ids: str) -> None:
    registry.submit(Sweep(f"id-{name}", name, max_failures=most), [farm.trial(t) for t in trial_ids])


def test_so_many_failures_cancel_the_rest_of_the_sweep_and_of_no_other(registry: Registry) -> None:
    limited(registry, "strict", 2, "t1", "t2", "t3", "t4")
    limited(registry, "patient", None, "t1", "t3")
    farm.finish(registry, "t1", farm.failed, "failed")
    assert registry.counts("id-strict") == {TrialState.FAILED: 1, TrialState.WAITING: 3}
    farm.finish(registry, "t2", farm.failed, "failed")
    assert [t.state.value for t in registry.trials("id-strict")] == ["failed", "failed", "waiting", "cancelled"]
    assert farm.kinds(registry, "id-strict").count("sweep_cancelled") == 1
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
