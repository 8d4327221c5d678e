"""The loop on the in-memory registry with a scripted executor: nothing lost, nothing twice."""

from __future__ import annotations

from tests.fakes import farm
from tests.fakes.controllers import ControllerBench
from tests.fakes.executor import ScriptedExecutor


def test_trials_run_in_order_and_reach_the_tracker() -> None:
    bench = ControllerBench()
    bench.submit([farm.trial(f"t{i}") for i in range(5)])
    bench.run()
    assert bench.executor.trials == [f"t{i}" for i in range(5)]
    assert bench.states() == ["done"] * 5
    assert {d for d in bench.tracker.delivered if d[0] == "trial"} == {("trial", "id-s", f"t{i}") for i in range(5)}
    assert bench.registry.outbox(9) == []


def test_two_hundred_trials_on_five_phones_finish_exactly_once() -> None:
    phones = [f"p{i}" for i in range(5)]
    bench = ControllerBench(phones)
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
    bench = ControllerBench(["p0", "p1", "p2"], ScriptedExecutor(held=["p0", "p2"]))
    bench.submit([farm.trial("t0", device="p0"), farm.trial("t1", device="p0"), farm.trial("t2", device="p2")])
    bench.during(bench.started(2))
    assert bench.executor.trials == ["t0", "t2"]
    assert bench.registry.trial("t1").reason == "phone p0 is busy"


def test_timed_runs_on_one_host_go_one_at_a_time() -> None:
    bench = ControllerBench(["p0", "p1", "p2"])
    bench.submit([farm.trial(f"t{i}", device=f"p{i % 3}", schedule={"exclusive_host": True}) for i in range(9)])
    bench.run()
    assert bench.states() == ["done"] * 9
    assert bench.executor.most_at_once == 1


def test_the_order_carries_attempt_deadline_and_the_phones_own_facts() -> None:
    bench = ControllerBench()
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
