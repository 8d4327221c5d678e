"""What the loop tells, and what it hears of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.controller import comparing
from orchestrator.controller.asking import Asking
from orchestrator.entities import (
    AttemptOrder,
    AttemptOutcome,
    DeviceState,
    Progress,
    Sweep,
    TrialState,
)
from tests.fakes import farm, trials
from tests.fakes.controllers import QUICK, ControllerBench
from tests.fakes.executor import ScriptedExecutor
from tests.fakes.farm import PHONE


def test_progress_is_noted_but_not_every_round() -> None:
    def agent(kind: str, **data: int) -> Progress:
        return Progress("a", "agent_event", {"kind": kind, "time_s": 1.0, "data": data})

    steps = [agent("started"), *(agent("progress", tokens=i) for i in range(50)), Progress("a", "connection_lost")]
    bench = ControllerBench(executor=ScriptedExecutor(progress=steps))
    bench.submit([farm.trial("t1")])
    bench.run()
    notes = [e.data for e in bench.registry.events(sweep_id="id-s") if e.kind == "progress"]
    assert notes == [
        {"kind": "agent_event", "event": "started", "time_s": 1.0, "data": {}},
        {"kind": "agent_event", "event": "progress", "time_s": 1.0, "data": {"tokens": 0}},
        {"kind": "connection_lost"},
    ]


def test_work_submitted_later_is_found() -> None:
    bench = ControllerBench()
    bench.during(
        lambda: bench.submit([farm.trial("t1")]),
        lambda: bench.states() == ["done"],
        lambda: bench.submit([farm.trial("t2")], "later"),
        lambda: bench.states("later") == ["done"],
        controller=bench.controller(timing=dataclasses.replace(QUICK, reconcile=1e9)),
    )


def test_a_phone_that_comes_back_gets_its_trials() -> None:
    bench = ControllerBench()
    bench.registry.set_device_state(PHONE, DeviceState.OFFLINE, "no answer")
    bench.submit([farm.trial("t1")])
    bench.during(
        lambda: bench.registry.trial("t1").reason == f"phone {PHONE} is offline: no answer",
        lambda: bench.registry.set_device_state(PHONE, DeviceState.READY),
        lambda: bench.states() == ["done"],
        controller=bench.controller(timing=dataclasses.replace(QUICK, reconcile=1e9)),
    )


class ResultExecutor(ScriptedExecutor):
    """Gives the results of tests/fakes/trials.py, a little faster with every trial."""

    def _outcome(self, order: AttemptOrder) -> AttemptOutcome:
        tpot = 1.0 / len(self.orders)
        result = trials.result(str(order.job["trial_id"]), [trials.request([1, 2, 3])], {"tpot_s": tpot})
        return AttemptOutcome(order.attempt_id, result=result)


def test_a_baseline_completes_the_trials_that_waited_for_it() -> None:
    bench = ControllerBench(executor=ResultExecutor())
    chain, plain, later = (
        trials.spec(name, strategy=strategy)
        for name, strategy in (("chain", "chain"), ("plain", "autoregressive"), ("later", "chain"))
    )
    bench.submit([chain, plain, later])
    bench.run()
    speedups = [(t.result or {})["metrics"]["speedup_over_autoregressive"] for t in bench.registry.trials("id-s")]
    assert speedups == pytest.approx([0.5, 1.0, 1.5])
    assert all((t.result or {})["tags"]["exactness"].startswith("exact 3/3") for t in bench.registry.trials("id-s"))
    assert bench.registry.underived(9) == []


def test_a_comparison_cut_short_is_made_up_for() -> None:
    bench = ControllerBench(executor=ResultExecutor())
    bench.submit([trials.spec("plain", strategy="autoregressive")])
    attempt = bench.registry.start_attempt("plain", PHONE, "me", 60.0)
    result = trials.result("plain", [trials.request([1])])
    bench.registry.finish_attempt(attempt, AttemptOutcome(attempt.attempt_id, result), TrialState.DONE, charged=False)
    bench.run()  # the controller before died between the result and the comparison
    assert (bench.registry.trial("plain").result or {})["metrics"]["speedup_over_autoregressive"] == 1.0


def test_many_comparisons_hold_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = ControllerBench()
    specs = [trials.spec(f"c{i}") for i in range(3 * comparing.AT_ONCE)]
    baseline = trials.spec("plain", strategy="autoregressive")
    bench.registry.submit(Sweep("s", "s"), [*specs, baseline])
    for spec in (*specs, baseline):
        attempt = bench.registry.start_attempt(spec.trial_id, str(spec.device), "gone", 60)
        outcome = AttemptOutcome(attempt.attempt_id, trials.result(spec.trial_id, [trials.request([1])]))
        bench.registry.finish_attempt(attempt, outcome, TrialState.DONE, charged=False)
    asked: list[str] = []
    original = Asking.call

    async def noted(self: Asking, function: Callable[..., Any], *args: Any) -> Any:
        asked.append(getattr(function, "__name__", "?"))
        return await original(self, function, *args)

    monkeypatch.setattr(Asking, "call", noted)
    bench.run()
    assert bench.registry.underived(1) == []
    between = [asked[i + 1] for i, name in enumerate(asked[:-1]) if name == "compare_new"]
    assert "compare_new" not in between  # a look at everything else after each few


def test_an_idle_controller_asks_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = ControllerBench()
    asked: list[str] = []
    original = Asking.call

    async def counted(self: Asking, function: Callable[..., Any], *args: Any) -> Any:
        asked.append(getattr(function, "__name__", "?"))
        return await original(self, function, *args)

    monkeypatch.setattr(Asking, "call", counted)
    bench.during(lambda: len(asked) > 60, controller=bench.controller(timing=dataclasses.replace(QUICK, reconcile=1e9)))
    first_look = asked.index("compare_new") + 1
    assert set(asked[first_look:-1]) == {"events"}
