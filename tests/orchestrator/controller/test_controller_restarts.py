"""Controllers that die, leases that are lost, a database that comes and goes."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from orchestrator.entities import (
    Attempt,
    TrialState,
)
from orchestrator.errors import RegistryError
from orchestrator.registry.memory import MemoryRegistry
from tests.fakes import farm
from tests.fakes.controllers import QUICK, ControllerBench
from tests.fakes.executor import ScriptedExecutor
from tests.fakes.farm import PHONE


def test_a_controller_that_stops_leaves_its_attempt_to_the_next() -> None:
    bench = ControllerBench(executor=ScriptedExecutor(held=[PHONE]))
    bench.submit([farm.trial("t1")])
    bench.during(bench.started(1))
    assert bench.states() == ["running"]
    bench.executor.held.clear()
    bench.during(lambda: bench.states() == ["done"], controller=bench.controller("the next"))
    assert [o.attempt_id for o in bench.executor.orders] == [bench.registry.attempts("t1")[0].attempt_id] * 2
    assert bench.registry.trial("t1").attempts == 1


def test_a_killed_controllers_attempt_is_adopted_once_its_lease_expired() -> None:
    bench = ControllerBench()
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
    bench = ControllerBench()
    bench.submit([farm.trial("t1")])
    bench.registry.start_attempt("t1", PHONE, "here/1/0", 1e9)
    bench.run()
    assert bench.states() == ["done"]


def test_the_outcome_of_a_lost_lease_is_dropped() -> None:
    bench = ControllerBench(executor=ScriptedExecutor(held=[PHONE]))
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
    bench = ControllerBench(executor=ScriptedExecutor(held=[PHONE]))
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
    bench = ControllerBench()
    bench.registry = Flaky(bench.clock)
    for name in ("p0", "p1"):
        bench.registry.put_device(farm.phone(name))
    bench.submit([farm.trial(f"t{i}", device=f"p{i % 2}") for i in range(10)])
    bench.during(lambda: bench.states() == ["done"] * 10)
    Flaky.away = False
    assert [e.kind for e in bench.registry.events()].count("trial_done") == 10
