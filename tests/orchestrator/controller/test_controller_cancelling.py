"""What the loop makes of cancelled sweeps."""

from __future__ import annotations

from orchestrator.entities import (
    DeviceState,
)
from tests.fakes import farm
from tests.fakes.controllers import ControllerBench
from tests.fakes.executor import ScriptedExecutor
from tests.fakes.farm import PHONE


def test_cancelling_a_sweep_stops_what_runs() -> None:
    bench = ControllerBench(executor=ScriptedExecutor(held=[PHONE]))
    bench.submit([farm.trial("t1"), farm.trial("t2")])

    def cancel() -> None:
        bench.registry.cancel("id-s")

    bench.during(bench.started(1), cancel, lambda: bench.states() == ["cancelled", "cancelled"])
    assert bench.executor.stopped == [bench.executor.orders[0].attempt_id]
    assert bench.registry.attempts("t1")[0].failure_kind == "cancelled"
    assert bench.registry.device(PHONE).state is DeviceState.READY
