"""The loop on the in-memory registry with a scripted executor: nothing lost, nothing twice, whatever happens."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from orchestrator.controller import Controller, Timing, comparing, disk
from orchestrator.controller import loop as controller_loop
from orchestrator.controller.asking import Asking
from orchestrator.entities import (
    Attempt,
    AttemptOrder,
    AttemptOutcome,
    AttemptState,
    DeviceState,
    FailureKind,
    FarmEvent,
    Progress,
    Sweep,
    TrialSpec,
    TrialState,
)
from orchestrator.errors import RegistryError
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.registry.sql import SqlRegistry, open_registry
from tests.fakes import farm, trials
from tests.fakes.executor import OutboxTracker, ScriptedExecutor
from tests.fakes.farm import PHONE, HandClock

QUICK = Timing(poll=0.001, lease=60.0, reconcile=0.05, progress=0.5, trouble=0.001, tracker=0.001, farewell=10.0)
DEADLINE_S = 60.0


class Bench:
    """A registry, a scripted executor and controllers over them."""

    def __init__(self, phones: Sequence[str] = (PHONE,), executor: ScriptedExecutor | None = None) -> None:
        self.clock = HandClock()
        self.registry = MemoryRegistry(self.clock)
        self.executor = executor or ScriptedExecutor()
        self.tracker = OutboxTracker()
        for name in phones:
            self.registry.put_device(farm.phone(name))

    def submit(self, specs: Sequence[TrialSpec], sweep: str = "s", most: int | None = None) -> None:
        self.registry.submit(Sweep(f"id-{sweep}", sweep, max_failures=most), specs)

    def controller(self, owner: str = "me", timing: Timing = QUICK, pause: Callable[[], str] = str) -> Controller:
        return Controller(self.registry, self.executor, self.tracker, owner, "here", timing, pause)

    def run(self) -> None:
        """Until nothing is left to do."""
        asyncio.run(asyncio.wait_for(self.controller().run(asyncio.Event(), until_idle=True), DEADLINE_S))

    def during(self, *steps: Callable[[], bool | None], controller: Controller | None = None) -> None:
        """Run a controller and take one step after the other, again and again while it returns False; then stop."""
        asyncio.run(asyncio.wait_for(self._during(steps, controller or self.controller()), DEADLINE_S))

    async def _during(self, steps: Sequence[Callable[[], bool | None]], controller: Controller) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(controller.run(stop))
        for step in steps:
            while step() is False:
                assert not running.done(), running.exception()
                await asyncio.sleep(0)
        stop.set()
        await running

    def states(self, sweep: str = "s") -> list[str]:
        return [t.state.value for t in self.registry.trials(f"id-{sweep}")]

    def owners(self, sweeps: Sequence[str]) -> set[str]:
        """Of attempts."""
        found = [t.spec.trial_id for sweep in sweeps for t in self.registry.trials(f"id-{sweep}")]
        return {a.owner for trial_id in found for a in self.registry.attempts(trial_id)}

    def started(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.executor.orders) >= count


def fail_first(kind: FailureKind, times: int = 1) -> Callable[[AttemptOrder], FailureKind | None]:
    """The first attempts of every trial fail."""
    seen: dict[str, int] = {}

    def script(order: AttemptOrder) -> FailureKind | None:
        trial_id = str(order.job["trial_id"])
        seen[trial_id] = seen.get(trial_id, 0) + 1
        return kind if seen[trial_id] <= times else None

    return script


def test_trials_run_in_order_and_reach_the_tracker() -> None:
    bench = Bench()
    bench.submit([farm.trial(f"t{i}") for i in range(5)])
    bench.run()
    assert bench.executor.trials == [f"t{i}" for i in range(5)]
    assert bench.states() == ["done"] * 5
    assert {d for d in bench.tracker.delivered if d[0] == "trial"} == {("trial", "id-s", f"t{i}") for i in range(5)}
    assert bench.registry.outbox(9) == []


def test_two_hundred_trials_on_five_phones_finish_exactly_once() -> None:
    phones = [f"p{i}" for i in range(5)]
    bench = Bench(phones)
    specs = [farm.trial(f"t{i}", device=phones[i % 5] if i % 3 else None, phones="any") for i in range(200)]
    bench.submit(specs)
    bench.run()
    assert bench.states() == ["done"] * 200
    assert set(bench.executor.tries.values()) == {1}
    assert len(bench.executor.tries) == 200
    done = [e.trial_id for e in bench.registry.events(limit=10_000) if e.kind == "trial_done"]
    assert sorted(map(str, done)) == sorted(f"t{i}" for i in range(200))
    assert [e.kind for e in bench.registry.events(limit=10_000)].count("sweep_finished") == 1


def test_phones_work_side_by_side() -> None:
    bench = Bench(["p0", "p1", "p2"], ScriptedExecutor(held=["p0", "p2"]))
    bench.submit([farm.trial("t0", device="p0"), farm.trial("t1", device="p0"), farm.trial("t2", device="p2")])
    bench.during(bench.started(2))
    assert bench.executor.trials == ["t0", "t2"]
    assert bench.registry.trial("t1").reason == "phone p0 is busy"


def test_timed_runs_on_one_host_go_one_at_a_time() -> None:
    bench = Bench(["p0", "p1", "p2"])
    bench.submit([farm.trial(f"t{i}", device=f"p{i % 3}", schedule={"exclusive_host": True}) for i in range(9)])
    bench.run()
    assert bench.states() == ["done"] * 9
    assert bench.executor.most_at_once == 1


def test_the_order_carries_attempt_deadline_and_the_phones_own_facts() -> None:
    bench = Bench()
    power = {"idle_w": 0.5, "cpu_w_per_core": 1.0, "flash_j_per_gb": 0.2}
    phone = farm.phone(facts={"power_model": power, "flash_mb_s": 900})
    bench.registry.put_device(phone)
    bench.submit([farm.trial("t1", device=None)])
    bench.run()
    (order,) = bench.executor.orders
    assert order.job["attempt_id"] == order.attempt_id == bench.registry.trial("t1").attempt_id
    assert order.job["energy"] == {"method": "model", **power}
    assert order.job["flash_profile_mb_s"] == 900.0
    assert order.deadline_s == 60.0
    assert order.device.address == phone.address


# --- failures


@pytest.mark.parametrize("kind", [FailureKind.UNREACHABLE, FailureKind.AGENT_KILLED, FailureKind.HOST_LOST])
def test_infrastructure_failures_are_retried_uncharged(kind: FailureKind) -> None:
    bench = Bench(executor=ScriptedExecutor(fail_first(kind, times=2)))
    bench.submit([farm.trial("t1")])
    bench.run()
    trial = bench.registry.trial("t1")
    assert (trial.state, trial.attempts, trial.charged_failures) == (TrialState.DONE, 3, 0)
    assert trial.failure_kind is None


def test_a_trials_own_failure_is_tried_on_another_phone_and_succeeds_there() -> None:
    bench = Bench(["p0", "p1"], ScriptedExecutor(fail_first(FailureKind.NAN_LOGITS)))
    bench.submit([farm.trial("t1", device=None)])
    bench.run()
    assert [o.device.name for o in bench.executor.orders] == ["p0", "p1"]
    assert (bench.states(), bench.registry.trial("t1").charged_failures) == (["done"], 1)


def test_the_same_failure_on_two_phones_is_the_trials_and_others_go_on() -> None:
    def script(order: AttemptOrder) -> FailureKind | None:
        return FailureKind.ENGINE_ERROR if order.job["trial_id"] == "bad" else None

    bench = Bench(["p0", "p1", "p2"], ScriptedExecutor(script))
    bench.submit([farm.trial(t, device=None) for t in ("bad", "t1", "t2")])
    bench.run()
    bad = bench.registry.trial("bad")
    assert (bad.state, bad.failure_kind, bad.charged_failures) == (TrialState.FAILED, "engine_error", 2)
    assert len({a.device for a in bench.registry.attempts("bad")}) == 2
    assert bench.states() == ["failed", "done", "done"]
    assert {d.state for d in bench.registry.devices()} == {DeviceState.READY}


def test_a_failed_trial_has_a_fresh_history_when_submitted_again() -> None:
    bench = Bench(executor=ScriptedExecutor(fail_first(FailureKind.ENGINE_ERROR, times=3)))
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

    bench = Bench(["bad", "good"], ScriptedExecutor(script))
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
    bench = Bench(executor=ScriptedExecutor(lambda _o: FailureKind.BAD_SPEC))
    bench.submit([farm.trial(f"t{i}") for i in range(4)], most=most)
    bench.run()
    assert bench.states() == ["failed"] * failed + ["cancelled"] * (4 - failed)


def test_a_phone_is_judged_though_the_controller_died_before_it_could() -> None:
    bench = Bench()
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
    bench = Bench(executor=ScriptedExecutor(lambda _o: FailureKind.UNREACHABLE))
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

    bench = Bench(executor=ScriptedExecutor(script))
    bench.submit([farm.trial("t1")])
    bench.run()
    assert bench.states() == ["done"]
    first = bench.registry.attempts("t1")[0]
    assert (first.failure_kind, first.charged) == ("host_lost", False)
    assert "a bug" in str(first.failure_message)


def test_a_trial_that_this_version_cannot_run_fails_by_name_and_others_go_on() -> None:
    bench = Bench()
    bench.submit([farm.trial("old", schedule={"deadline_s": "soon"}), farm.trial("t1")])
    bench.during(lambda: bench.states() == ["failed", "done"])
    assert bench.registry.trial("old").failure_kind == "bad_spec"
    assert "this version cannot run it: could not convert string to float: 'soon'" in str(
        bench.registry.trial("old").failure_message
    )


def test_two_controllers_share_a_registry_and_run_everything_once() -> None:
    """Sweep after sweep, until each of the two has found something to do."""
    phones = [f"p{i}" for i in range(4)]
    bench = Bench(phones)
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


# --- cancelling


def test_cancelling_a_sweep_stops_what_runs() -> None:
    bench = Bench(executor=ScriptedExecutor(held=[PHONE]))
    bench.submit([farm.trial("t1"), farm.trial("t2")])

    def cancel() -> None:
        bench.registry.cancel("id-s")

    bench.during(bench.started(1), cancel, lambda: bench.states() == ["cancelled", "cancelled"])
    assert bench.executor.stopped == [bench.executor.orders[0].attempt_id]
    assert bench.registry.attempts("t1")[0].failure_kind == "cancelled"
    assert bench.registry.device(PHONE).state is DeviceState.READY


# --- restarts and lost leases


def test_a_controller_that_stops_leaves_its_attempt_to_the_next() -> None:
    bench = Bench(executor=ScriptedExecutor(held=[PHONE]))
    bench.submit([farm.trial("t1")])
    bench.during(bench.started(1))
    assert bench.states() == ["running"]
    bench.executor.held.clear()
    bench.during(lambda: bench.states() == ["done"], controller=bench.controller("the next"))
    assert [o.attempt_id for o in bench.executor.orders] == [bench.registry.attempts("t1")[0].attempt_id] * 2
    assert bench.registry.trial("t1").attempts == 1


def test_a_killed_controllers_attempt_is_adopted_once_its_lease_expired() -> None:
    bench = Bench()
    bench.submit([farm.trial("t1")])
    lost = bench.registry.start_attempt("t1", PHONE, "another-host/1/2", 60.0)
    looks = bench.registry.last_event_id()

    def expire() -> bool:
        assert bench.executor.orders == []
        bench.clock.now += 61
        return looks == bench.registry.last_event_id()

    bench.during(expire, lambda: bench.states() == ["done"])
    assert [o.attempt_id for o in bench.executor.orders] == [lost.attempt_id]


def test_a_gone_process_of_this_host_need_not_be_waited_for() -> None:
    bench = Bench()
    bench.submit([farm.trial("t1")])
    bench.registry.start_attempt("t1", PHONE, "here/1/0", 1e9)
    bench.run()
    assert bench.states() == ["done"]


def test_the_outcome_of_a_lost_lease_is_dropped() -> None:
    bench = Bench(executor=ScriptedExecutor(held=[PHONE]))
    bench.submit([farm.trial("t1")])
    taken: list[Attempt] = []

    def steal() -> None:
        (attempt,) = bench.registry.running()
        bench.clock.now += 61
        taken.append(bench.registry.adopt(attempt.attempt_id, "thief", 1e9))
        bench.executor.release(PHONE)

    bench.during(bench.started(1), steal, lambda: not bench.executor.running)
    assert bench.states() == ["running"]
    bench.registry.finish_attempt(taken[0], farm.done(taken[0]), TrialState.DONE, charged=False)
    assert bench.states() == ["done"]


def test_an_attempt_that_somebody_else_adopted_is_followed_no_longer() -> None:
    bench = Bench(executor=ScriptedExecutor(held=[PHONE]))
    bench.submit([farm.trial("t1")])

    def steal() -> None:
        (attempt,) = bench.registry.running()
        bench.clock.now += 61
        bench.registry.adopt(attempt.attempt_id, "thief", 1e9)

    renewing = dataclasses.replace(QUICK, lease=0.003)
    bench.during(
        bench.started(1), steal, lambda: not bench.executor.running, controller=bench.controller(timing=renewing)
    )
    assert bench.states() == ["running"]


class Flaky(MemoryRegistry):
    """One of five calls finds no database while it is `away`."""

    away = True
    dice = random.Random(7)

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        asked = name in ("events", "running", "devices", "waiting", "trial", "finish_attempt", "start_attempt", "renew")
        if asked and Flaky.away and Flaky.dice.random() < 0.2:
            raise RegistryError("the database is away")
        return value


def test_a_database_that_comes_and_goes_loses_nothing() -> None:
    bench = Bench()
    bench.registry = Flaky(bench.clock)
    for name in ("p0", "p1"):
        bench.registry.put_device(farm.phone(name))
    bench.submit([farm.trial(f"t{i}", device=f"p{i % 2}") for i in range(10)])
    bench.during(lambda: bench.states() == ["done"] * 10)
    Flaky.away = False
    assert [e.kind for e in bench.registry.events()].count("trial_done") == 10


# --- a full disk


def test_nothing_is_started_without_room_on_the_disk_and_it_is_said_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = [5_000_000]
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(10**12, 0, free[0]))  # type: ignore[attr-defined]
    bench = Bench()
    bench.submit([farm.trial("t1")])

    def refill() -> None:
        assert bench.executor.orders == []
        free[0] = 10**12

    bench.during(
        lambda: "has 5 MB free and 200 MB are needed" in bench.registry.trial("t1").reason,
        refill,
        lambda: bench.states() == ["done"],
        controller=bench.controller(pause=lambda: disk.shortage(tmp_path)),
    )
    kinds = [e.kind for e in bench.registry.events() if e.kind.startswith("farm_")]
    assert kinds == ["farm_paused", "farm_resumed"]


def test_a_registry_on_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    with closing(open_registry(f"sqlite:///{tmp_path / 'registry.db'}")) as registry:
        assert isinstance(registry, SqlRegistry)
        bench.registry = registry  # type: ignore[assignment]  # a file instead of memory
        registry.put_device(farm.phone())
        bench.submit([farm.trial(f"t{i}") for i in range(3)])
        full = True

        def limit(connection: Any, _record: object, _proxy: object) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0] if full else 2**30
            connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own answer to a full disk

        event.listen(registry._db.engine, "checkout", limit)
        for size in (2000, 0):  # until not even a small event fits
            with pytest.raises(RegistryError, match="is full") as error:
                fill(registry, "x" * size)
        assert "Free some disk space" in error.value.remedy
        refused = Refused()
        monkeypatch.setattr(controller_loop, "log", refused)

        def make_room() -> bool:
            nonlocal full
            full = not refused.warned
            return not full

        bench.during(make_room, lambda: bench.states() == ["done"] * 3)
        assert "database or disk is full" in str(refused.warned)
        assert all(t.attempts == 1 for t in registry.trials("id-s"))


def fill(registry: SqlRegistry, text: str) -> None:
    while True:
        registry.add_event(FarmEvent("progress", data={"filler": text}))


class Refused:
    """A log that keeps the warnings."""

    def __init__(self) -> None:
        self.warned: list[str] = []

    def warning(self, text: str, *values: object) -> None:
        self.warned.append(text % values)

    def info(self, *_ignored: object) -> None:
        """Not kept."""


# --- progress, news, comparison


def test_progress_is_noted_but_not_every_round() -> None:
    def agent(kind: str, **data: int) -> Progress:
        return Progress("a", "agent_event", {"kind": kind, "time_s": 1.0, "data": data})

    steps = [agent("started"), *(agent("progress", tokens=i) for i in range(50)), Progress("a", "connection_lost")]
    bench = Bench(executor=ScriptedExecutor(progress=steps))
    bench.submit([farm.trial("t1")])
    bench.run()
    notes = [e.data for e in bench.registry.events(sweep_id="id-s") if e.kind == "progress"]
    assert notes == [
        {"kind": "agent_event", "event": "started", "time_s": 1.0, "data": {}},
        {"kind": "agent_event", "event": "progress", "time_s": 1.0, "data": {"tokens": 0}},
        {"kind": "connection_lost"},
    ]


def test_work_submitted_later_is_found() -> None:
    bench = Bench()
    bench.during(
        lambda: bench.submit([farm.trial("t1")]),
        lambda: bench.states() == ["done"],
        lambda: bench.submit([farm.trial("t2")], "later"),
        lambda: bench.states("later") == ["done"],
        controller=bench.controller(timing=dataclasses.replace(QUICK, reconcile=1e9)),
    )


def test_a_phone_that_comes_back_gets_its_trials() -> None:
    bench = Bench()
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
    bench = Bench(executor=ResultExecutor())
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
    bench = Bench(executor=ResultExecutor())
    bench.submit([trials.spec("plain", strategy="autoregressive")])
    attempt = bench.registry.start_attempt("plain", PHONE, "me", 60.0)
    result = trials.result("plain", [trials.request([1])])
    bench.registry.finish_attempt(attempt, AttemptOutcome(attempt.attempt_id, result), TrialState.DONE, charged=False)
    bench.run()  # the controller before died between the result and the comparison
    assert (bench.registry.trial("plain").result or {})["metrics"]["speedup_over_autoregressive"] == 1.0


def test_many_comparisons_hold_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
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
    bench = Bench()
    asked: list[str] = []
    original = Asking.call

    async def counted(self: Asking, function: Callable[..., Any], *args: Any) -> Any:
        asked.append(getattr(function, "__name__", "?"))
        return await original(self, function, *args)

    monkeypatch.setattr(Asking, "call", counted)
    bench.during(lambda: len(asked) > 60, controller=bench.controller(timing=dataclasses.replace(QUICK, reconcile=1e9)))
    first_look = asked.index("compare_new") + 1
    assert set(asked[first_look:-1]) == {"events"}
