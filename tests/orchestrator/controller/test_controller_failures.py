"""What the loop makes of attempts that fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orchestrator.entities import (
    Attempt,
    AttemptOrder,
    AttemptState,
    DeviceState,
    FailureKind,
    TrialState,
)
from orchestrator.errors import RegistryError
from orchestrator.registry.memory import MemoryRegistry
from tests.fakes import farm
from tests.fakes.controllers import DEADLINE_S, ControllerBench, fail_first
from tests.fakes.executor import ScriptedExecutor
from tests.fakes.farm import PHONE


@pytest.mark.parametrize("kind", [FailureKind.UNREACHABLE, FailureKind.AGENT_KILLED, FailureKind.HOST_LOST])
def test_infrastructure_failures_are_retried_uncharged(kind: FailureKind) -> None:
    bench = ControllerBench(executor=ScriptedExecutor(fail_first(kind, times=2)))
    bench.submit([farm.trial("t1")])
    bench.run()
    trial = bench.registry.trial("t1")
    assert (trial.state, trial.attempts, trial.charged_failures) == (TrialState.DONE, 3, 0)
    assert trial.failure_kind is None


def test_a_trials_own_failure_is_tried_on_another_phone_and_succeeds_there() -> None:
    bench = ControllerBench(["p0", "p1"], ScriptedExecutor(fail_first(FailureKind.NAN_LOGITS)))
    bench.submit([farm.trial("t1", device=None)])
    bench.run()
    assert [o.device.name for o in bench.executor.orders] == ["p0", "p1"]
    assert (bench.states(), bench.registry.trial("t1").charged_failures) == (["done"], 1)


def test_the_same_failure_on_two_phones_is_the_trials_and_others_go_on() -> None:
    def script(order: AttemptOrder) -> FailureKind | None:
        return FailureKind.ENGINE_ERROR if order.job["trial_id"] == "bad" else None

    bench = ControllerBench(["p0", "p1", "p2"], ScriptedExecutor(script))
    bench.submit([farm.trial(t, device=None) for t in ("bad", "t1", "t2")])
    bench.run()
    bad = bench.registry.trial("bad")
    assert (bad.state, bad.failure_kind, bad.charged_failures) == (TrialState.FAILED, "engine_error", 2)
    assert len({a.device for a in bench.registry.attempts("bad")}) == 2
    assert bench.states() == ["failed", "done", "done"]
    assert {d.state for d in bench.registry.devices()} == {DeviceState.READY}


def test_a_failed_trial_has_a_fresh_history_when_submitted_again() -> None:
    bench = ControllerBench(executor=ScriptedExecutor(fail_first(FailureKind.ENGINE_ERROR, times=3)))
    bench.submit([farm.trial("t1")])
    bench.run()
    assert bench.states() == ["failed"]
    bench.submit([farm.trial("t1")])
    bench.run()
    assert bench.states() == ["done"]
    assert [a.state for a in bench.registry.attempts("t1")] == [AttemptState.FAILED] * 3 + [AttemptState.DONE]


def test_a_phone_that_keeps_failing_is_quarantined_and_its_trials_wait() -> None:
    def script(order: AttemptOrder) -> FailureKind | None:
        return FailureKind.UNREACHABLE if order.device.name == "bad" else None

    bench = ControllerBench(["bad", "good"], ScriptedExecutor(script))
    bench.submit([farm.trial("t1", device="bad"), farm.trial("t2", device="bad"), farm.trial("t3", device="good")])
    bench.run()
    bad = bench.registry.device("bad")
    assert bad.state is DeviceState.QUARANTINED
    assert "3 failures in a row: unreachable" in bad.state_reason
    assert "scripted unreachable" in bad.state_reason
    assert bench.states() == ["waiting", "waiting", "done"]
    assert all(t.charged_failures == 0 for t in bench.registry.trials("id-s"))
    assert "phone bad is quarantined: 3 failures" in bench.registry.trial("t1").reason
    bench.registry.set_device_state("bad", DeviceState.READY)
    bench.executor._script = lambda _order: None
    bench.run()
    assert bench.states() == ["done"] * 3


@pytest.mark.parametrize(("most", "failed"), [(1, 1), (2, 2), (None, 4)])
def test_so_many_failures_cancel_what_waits(most: int | None, failed: int) -> None:
    bench = ControllerBench(executor=ScriptedExecutor(lambda _o: FailureKind.BAD_SPEC))
    bench.submit([farm.trial(f"t{i}") for i in range(4)], most=most)
    bench.run()
    assert bench.states() == ["failed"] * failed + ["cancelled"] * (4 - failed)


def test_a_phone_is_judged_though_the_controller_died_before_it_could() -> None:
    bench = ControllerBench()
    bench.submit([farm.trial("t1")])
    for _ in range(3):
        attempt = farm.run(bench.registry, "t1")
        outcome = farm.failed(attempt, FailureKind.UNREACHABLE)
        bench.registry.finish_attempt(attempt, outcome, TrialState.WAITING, charged=False)
    bench.run()
    assert bench.registry.device(PHONE).state is DeviceState.QUARANTINED
    assert bench.executor.orders == []


class Deaf(MemoryRegistry):
    """Records an outcome, but the answer is lost."""

    def finish_attempt(self, attempt: Attempt, *args: Any, **kwargs: Any) -> None:
        super().finish_attempt(attempt, *args, **kwargs)
        raise RegistryError("the connection is gone")


def test_an_outcome_whose_receipt_is_lost_is_recorded_once_and_the_phone_judged() -> None:
    bench = ControllerBench(executor=ScriptedExecutor(lambda _o: FailureKind.UNREACHABLE))
    bench.registry = Deaf(bench.clock)
    bench.registry.put_device(farm.phone())
    bench.submit([farm.trial("t1")])
    bench.run()
    assert len(bench.registry.attempts("t1")) == 3
    assert bench.registry.device(PHONE).state is DeviceState.QUARANTINED


def test_an_executor_that_breaks_costs_one_attempt() -> None:
    broken: list[AttemptOrder] = []

    def script(order: AttemptOrder) -> FailureKind | None:
        if not broken:
            broken.append(order)
            raise ZeroDivisionError("a bug")
        return None

    bench = ControllerBench(executor=ScriptedExecutor(script))
    bench.submit([farm.trial("t1")])
    bench.run()
    assert bench.states() == ["done"]
    first = bench.registry.attempts("t1")[0]
    assert (first.failure_kind, first.charged) == ("host_lost", False)
    assert "a bug" in str(first.failure_message)


def test_a_trial_that_this_version_cannot_run_fails_by_name_and_others_go_on() -> None:
    bench = ControllerBench()
    bench.submit([farm.trial("old", schedule={"deadline_s": "soon"}), farm.trial("t1")])
    bench.during(lambda: bench.states() == ["failed", "done"])
    assert bench.registry.trial("old").failure_kind == "bad_spec"
    assert "this version cannot run it: could not convert string to float: 'soon'" in str(
        bench.registry.trial("old").failure_message
    )


def test_two_controllers_share_a_registry_and_run_everything_once() -> None:
    """Sweep after sweep, until each of the two has found something to do."""
    phones = [f"p{i}" for i in range(4)]
    bench = ControllerBench(phones)
    timed = {"schedule": {"exclusive_host": True}}
    sweeps: list[str] = []

    def submit() -> None:
        sweeps.append(name := f"s{len(sweeps)}")
        bench.submit([farm.trial(f"{name}-{i}", device=phones[i % 4], **timed) for i in range(40)], name)  # type: ignore[arg-type]  # a config

    async def both() -> None:
        stop = asyncio.Event()
        running = [asyncio.create_task(bench.controller(owner).run(stop)) for owner in ("one/1/1", "two/2/2")]
        while len(bench.owners(sweeps)) < 2:
            submit()
            while set(bench.states(sweeps[-1])) != {"done"}:
                await asyncio.sleep(0)
        stop.set()
        await asyncio.gather(*running)

    asyncio.run(asyncio.wait_for(both(), DEADLINE_S))
    assert set(bench.executor.tries.values()) == {1}
    assert len(bench.executor.tries) == 40 * len(sweeps)
    assert bench.executor.most_at_once == 1, "timed runs of one host met"
