"""The farm's benchmark does the work that it measures."""

from __future__ import annotations

from benchmarks import farm_world
from orchestrator.entities import TrialState


def test_the_world_runs_every_trial_through_the_real_controller() -> None:
    with farm_world.world(4) as registry:
        cost = farm_world.run(registry, farm_world.trials(0, 12, 4), 0.0)
        assert registry.counts(farm_world.SWEEP.sweep_id) == {TrialState.DONE: 12}
        assert registry.outbox(1) == []
        assert (cost.trials, cost.cpu_s > 0) == (12, True)
        speedups = [(t.result or {})["metrics"].get("speedup_over_autoregressive") for t in registry.trials("bench")]
        assert speedups == [1.0] * 12
