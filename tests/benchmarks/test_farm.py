"""The farm's benchmark does the work that it measures, and keeps what it has measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import farm, farm_world
from orchestrator.entities import TrialState


def test_the_world_runs_every_trial_through_the_real_controller() -> None:
    with farm_world.world(4) as registry:
        cost = farm_world.run(registry, farm_world.trials(0, 12, 4), farm_world.TimerExecutor(0.0))
        assert registry.counts(farm_world.SWEEP.sweep_id) == {TrialState.DONE: 12}
        assert registry.outbox(1) == []
        assert (cost.trials, cost.cpu_s > 0) == (12, True)
        speedups = [(t.result or {})["metrics"].get("speedup_over_autoregressive") for t in registry.trials("bench")]
        assert speedups == [1.0] * 12


def test_a_grown_world_has_finished_trials_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm_world, "REAL", 8)
    with farm_world.grown(4, 24) as registry:
        assert registry.counts(farm_world.SWEEP.sweep_id) == {TrialState.DONE: 24}
        assert all(t.result and registry.attempts(t.spec.trial_id) for t in registry.trials(farm_world.SWEEP.sweep_id))
        farm_world.run(registry, farm_world.trials(24, 4, 4), farm_world.TimerExecutor(0.0))
        assert registry.counts(farm_world.SWEEP.sweep_id) == {TrialState.DONE: 28}


def test_a_part_is_written_at_once_and_keeps_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tmp_path / "results" / "farm.json"

    def broken(_quick: bool) -> dict[str, object]:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(farm, "RESULT", result)
    monkeypatch.setattr(farm, "PARTS", {"one": lambda _: {"a": 1}, "two": lambda _: {"b": 2}, "three": broken})
    with pytest.raises(RuntimeError):
        farm.main([])
    assert (found := json.loads(result.read_text()))["a"] == 1
    assert found["b"] == 2
    farm.PARTS["one"] = lambda _: {"a": 3}
    farm.main(["one"])
    found = json.loads(result.read_text())
    assert (found["a"], found["b"], sorted(found["parts"])) == (3, 2, ["one", "two"])
    with pytest.raises(SystemExit, match="no such part: four; there are one, two, three"):
        farm.main(["four"])
