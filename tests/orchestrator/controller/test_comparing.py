"""Whatever the order in which trials end and are compared, each comes to what comparing it with all others says."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.comparison import compare
from orchestrator.controller.comparing import compare_new
from orchestrator.entities import AttemptOutcome, Sweep, Trial, TrialSpec, TrialState
from orchestrator.registry.memory import MemoryRegistry
from tests.fakes import farm
from tests.fakes import trials as fake

STRATEGIES, STORAGES, KEYS = ("autoregressive", "chain"), ("flash", "resident"), ("b1", "b2")
EXACT = [fake.request([7, 8, 9], None, fake.exact(3))]
DIVERGED = [fake.request([7, 8, 1], None, fake.exact(3))]


@st.composite
def specs(draw: st.DrawFn) -> list[TrialSpec]:
    """In the order in which they end."""
    found = []
    for i in range(draw(st.integers(1, 8))):
        made = fake.spec(f"t{draw(st.integers(0, 9))}-{i}", strategy=draw(st.sampled_from(STRATEGIES)))
        key, storage = draw(st.sampled_from(KEYS)), draw(st.sampled_from(STORAGES))
        labels = {**made.labels, "baseline_key": key, "storage": storage}
        found.append(replace(made, labels=labels, repeat=draw(st.integers(0, 2))))
    return found


@settings(deadline=None)
@given(specs(), st.data())
def test_the_order_does_not_matter(found: list[TrialSpec], data: st.DataObject) -> None:
    registry = MemoryRegistry()
    registry.put_device(farm.phone())
    registry.submit(Sweep("id-s", "s"), found)
    raw: list[Trial] = []
    for spec in found:
        end(registry, spec, data.draw(st.sampled_from([0.5, 1.0, 2.0])), data.draw(st.booleans()))
        raw.append(registry.trial(spec.trial_id))
        if data.draw(st.booleans()):
            settle(registry)
    settle(registry)
    for trial in raw:
        metrics, tags = compare(trial, raw)
        result = registry.trial(trial.spec.trial_id).result or {}
        assert result["tags"].get("exactness") == tags.get("exactness")
        assert {key: result["metrics"].get(key) for key in metrics} == metrics


def end(registry: MemoryRegistry, spec: TrialSpec, tpot_s: float, exact: bool) -> None:
    attempt = registry.start_attempt(spec.trial_id, str(spec.device), "me", 60.0)
    result = fake.result(spec.trial_id, EXACT if exact else DIVERGED, {"tpot_s": tpot_s})
    outcome = AttemptOutcome(attempt.attempt_id, result=result)
    registry.finish_attempt(attempt, outcome, TrialState.DONE, charged=False)


def settle(registry: MemoryRegistry) -> None:
    """Ends, since nothing makes trials wait for one another in a circle."""
    for _ in range(99):
        if not compare_new(registry):
            return
    raise AssertionError("it compares for ever")
