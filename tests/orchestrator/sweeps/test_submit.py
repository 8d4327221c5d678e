"""A batch into the registry: whole or not at all, and only what is missing."""

from typing import Any

import pytest

from orchestrator import sweeping
from orchestrator.entities import TrialState
from orchestrator.errors import ConfigError, ModelError
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.submit import Submitted, plan, submit
from tests.fakes import farm
from tests.fakes.jobs import job
from tests.fakes.models import FakeModels

PLAIN: dict[str, Any] = {"engine.strategy": "autoregressive"}


@pytest.fixture
def registry() -> MemoryRegistry:
    registry = MemoryRegistry()
    for name in ("a", "b"):
        registry.put_device(farm.phone(name))
    return registry


def send(registry: MemoryRegistry, *jobs: SweepJob) -> Submitted:
    return submit(plan(jobs, registry, FakeModels()), registry)


def end(registry: MemoryRegistry, trial_id: str, state: TrialState) -> None:
    trial = registry.trial(trial_id)
    attempt = registry.start_attempt(trial_id, str(trial.spec.device), "test", 60.0)
    outcome = farm.done(attempt) if state is TrialState.DONE else farm.failed(attempt)
    registry.finish_attempt(attempt, outcome, state, charged=state is TrialState.FAILED)


def test_all_jobs_on_all_phones_are_queued_in_order(registry: MemoryRegistry) -> None:
    sent = send(registry, job(PLAIN), job())
    assert sent.trial_ids == [t.spec.trial_id for t in registry.trials(sent.submission.sweep.sweep_id)]
    assert [spec.device for spec in sent.batch.specs] == ["a", "b", "a", "b"]
    assert (sent.open, sent.known) == (4, False)
    assert sent.submission.sweep.name.startswith("small-")
    assert sent.submission.sweep.record["packs"] == ["draft-hash", "target-hash"]


def test_jobs_that_run_alike_share_their_trial(registry: MemoryRegistry) -> None:
    sent = send(registry, job(PLAIN | {"phones": "a"}), job(PLAIN | {"phones": "a", "engine.drafting.k": 3}))
    assert sent.batch.trials[0][0].trial_id == sent.batch.trials[1][0].trial_id
    assert len(sent.trial_ids) == 1


def test_jobs_that_run_alike_are_named(registry: MemoryRegistry) -> None:
    narrow, same = (
        job(PLAIN | {"phones": "a"}, "job #0"),
        job(PLAIN | {"phones": "a", "engine.drafting.k": 3}, "job #1"),
    )
    wider, other = job(PLAIN | {"phones": "a,b"}, "job #2"), job({"phones": "b"}, "job #3")
    sent = send(registry, narrow, same, wider, other)
    assert [(j.name, s.name) for j, s in sent.batch.alike] == [("job #1", "job #0"), ("job #2", "job #0")]
    assert sweeping.alike(sent)[0] == "job #1 is the same trial as job #0: they differ in nothing that is used"


def test_many_alike_jobs_are_counted(registry: MemoryRegistry) -> None:
    jobs = [job(PLAIN | {"phones": "a", "engine.drafting.k": k}, f"job #{k}") for k in range(1, 10)]
    lines = sweeping.alike(send(registry, *jobs))
    assert len(lines) == sweeping.ALIKE_SHOWN + 1
    assert "3 more" in lines[-1]


def test_on_existing_rerun_measures_done_trials_again(registry: MemoryRegistry) -> None:
    done, other = send(registry, job()).trial_ids
    end(registry, done, TrialState.DONE)
    again = send(registry, job({"on_existing": "rerun"}))
    assert again.submission.queued == (done,)
    assert again.submission.in_progress == (other,)


@pytest.mark.parametrize(
    ("changes", "most"),
    [({}, None), ({"schedule.fail_fast": True}, 1), ({"schedule.max_failures": 3}, 3)],
)
def test_a_sweep_knows_how_many_failures_end_it(
    registry: MemoryRegistry, changes: dict[str, Any], most: int | None
) -> None:
    assert send(registry, job(changes)).submission.sweep.max_failures == most


def test_the_same_sweep_again_runs_only_what_is_missing(registry: MemoryRegistry) -> None:
    first = send(registry, job(), job(PLAIN))
    done, failed, *waiting = first.trial_ids
    end(registry, done, TrialState.DONE)
    end(registry, failed, TrialState.FAILED)
    again = send(registry, job(), job(PLAIN))
    assert again.submission.sweep.sweep_id == first.submission.sweep.sweep_id
    assert again.known
    assert again.submission.reused == (done,)
    assert again.submission.queued == (failed,)
    assert again.submission.in_progress == tuple(waiting)


def test_one_bad_job_queues_nothing(registry: MemoryRegistry) -> None:
    with pytest.raises(ModelError):
        send(registry, job(), job({"pair.name": "huge"}))
    assert registry.sweeps() == []


ONE_EACH: dict[str, tuple[Any, Any]] = {
    "sweep": ("one", "two"),
    "runtime": ("ray", "inline"),
    "on_existing": ("skip", "rerun"),
    "detach": (False, True),
    "schedule.fail_fast": (False, True),
    "schedule.max_failures": (1, 2),
}


@pytest.mark.parametrize("key", ONE_EACH)
def test_a_batch_is_run_in_one_way(registry: MemoryRegistry, key: str) -> None:
    values = ONE_EACH[key]
    with pytest.raises(ConfigError, match=f"one batch has one {key}"):
        send(registry, *(job({key: value}) for value in values))


def test_a_named_sweep_grows(registry: MemoryRegistry) -> None:
    first = send(registry, job({"sweep": "mine"}))
    second = send(registry, job(PLAIN | {"sweep": "mine"}))
    assert first.submission.sweep.sweep_id == second.submission.sweep.sweep_id
    assert len(registry.trials(first.submission.sweep.sweep_id)) == 4
