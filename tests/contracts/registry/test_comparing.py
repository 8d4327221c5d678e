"""What the registry promises about comparing trials and measuring anew, held against every backend."""

from __future__ import annotations

from functools import partial

from orchestrator.entities import (
    Sweep,
    TrialState,
)
from orchestrator.registry.contract import Registry
from tests.fakes import farm
from tests.fakes.farm import PHONE


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
