"""Taking up a sweep from the registry: as it was submitted, or not at all with the trial named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.entities import Sweep, TrialSpec, TrialState
from orchestrator.errors import ConfigError, ModelError
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.sweeps.stored import resume
from orchestrator.sweeps.submit import plan, submit
from tests.fakes import farm
from tests.fakes.jobs import job
from tests.fakes.models import FakeModels

MODELS = FakeModels()


@pytest.fixture
def registry() -> MemoryRegistry:
    """A sweep of four trials, the first two of them done and failed."""
    registry = MemoryRegistry()
    for name in ("a", "b"):
        registry.put_device(farm.phone(name))
    shared = {"sweep": "s", "schedule.max_failures": 9}
    jobs = [job(shared), job(shared | {"engine.strategy": "autoregressive"})]
    first, second, *_ = submit(plan(jobs, registry, MODELS), registry).trial_ids
    done = registry.start_attempt(first, "a", "me", 60)
    registry.finish_attempt(done, farm.done(done), TrialState.DONE, charged=False)
    failed = registry.start_attempt(second, "b", "me", 60)
    registry.finish_attempt(failed, farm.failed(failed), TrialState.FAILED, charged=True)
    return registry


def states(registry: MemoryRegistry) -> list[str]:
    return [t.state.value for t in registry.trials(registry.sweep("s").sweep_id)]


def test_resuming_runs_what_failed_or_was_cancelled_and_nothing_else(registry: MemoryRegistry) -> None:
    registry.cancel("s")
    assert states(registry) == ["done", "failed", "cancelled", "cancelled"]
    before = [t.spec for t in registry.trials(registry.sweep("s").sweep_id)]
    taken = resume(registry, registry.sweep("s"), MODELS)
    assert (len(taken.queued), len(taken.reused), taken.in_progress) == (3, 1, ())
    assert states(registry) == ["done", "waiting", "waiting", "waiting"]
    assert [t.spec for t in registry.trials(registry.sweep("s").sweep_id)] == before
    assert registry.sweep("s").max_failures == 9
    assert len(resume(registry, registry.sweep("s"), MODELS).in_progress) == 3


def changed(spec: TrialSpec, **changes: Any) -> TrialSpec:
    return replace(spec, trial_id="old", **changes)


def outdated(spec: TrialSpec) -> dict[str, TrialSpec]:
    """Trials as other versions may have left them, by what is said of them."""
    config, job = spec.config, spec.job
    engine = {**config["engine"], "strategy": "magic"}
    return {
        "engine.strategy='magic'": changed(spec, config={**config, "engine": engine}),
        "warp": changed(spec, config={**config, "warp": 9}),
        "schedule.repeats": changed(spec, config={**config, "schedule": {"repeats": 0}}),
        "max_new_tokens": changed(spec, job={k: v for k, v in job.items() if k != "max_new_tokens"}),
    }


@pytest.mark.parametrize("says", ["engine.strategy='magic'", "warp", "schedule.repeats", "max_new_tokens"])
def test_a_trial_that_is_not_valid_any_more_is_named_and_nothing_is_queued(registry: MemoryRegistry, says: str) -> None:
    sweep = registry.sweep("s")
    old = outdated(registry.trials(sweep.sweep_id)[-1].spec)[says]
    registry.submit(Sweep(sweep.sweep_id, "s"), [old])
    registry.cancel("s")
    before = states(registry)
    with pytest.raises(ConfigError, match=r"trial old .* is not valid any more") as error:
        resume(registry, registry.sweep("s"), MODELS)
    assert says in error.value.message
    assert "composes anew" in error.value.remedy
    assert states(registry) == before


class Emptied(FakeModels):
    def manifest(self, pack_hash: str) -> Any:
        raise ModelError(f"no pack {pack_hash}")


def test_a_pack_that_is_gone_is_named(registry: MemoryRegistry) -> None:
    with pytest.raises(ModelError, match=r"draft-hash.* is not here any more"):
        resume(registry, registry.sweep("s"), Emptied())
