"""Costs measured by the real agent on a real virtual phone, kept, used, and never in the way of trials."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from device_agent.protocol import CostCalibration, from_json, to_json
from orchestrator.cost_key import cost_key
from orchestrator.entities import AttemptOrder, AttemptOutcome, DeviceState, FailureKind
from orchestrator.errors import FarmError
from orchestrator.farm.cost_calibration import calibrate, costs_job, runner
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.settings import Settings
from tests.fakes.bench import Bench
from tests.fakes.tiny_pair import tiny_pair


@pytest.fixture
def registry(bench: Bench) -> MemoryRegistry:
    made = MemoryRegistry()
    made.put_device(bench.device)
    return made


def test_a_phone_is_measured_and_left_clean(bench: Bench, registry: MemoryRegistry, tmp_path: Path) -> None:
    store, pair = tiny_pair(tmp_path)
    job = costs_job(pair.target_pack, pair.draft_pack, 1, "flash")
    seen: list[str] = []
    settings = Settings(tmp_path / "home", "", "", "here")
    run = runner(bench.connect, store, settings, lambda progress: seen.append(registry.device("desk").state))
    costs = calibrate(bench.device, job, registry, run)
    found = from_json(CostCalibration, costs)
    assert (found.target_pack, found.draft_pack, found.threads) == (pair.target_pack, pair.draft_pack, 1)
    assert found.bandwidth_mb_s
    assert set(seen) == {DeviceState.BUSY}
    assert registry.device("desk").state is DeviceState.READY
    assert registry.costs("desk", cost_key(bench.device, to_json(job)) or "") == costs
    assert list(bench.file("jobs").iterdir()) == []


def outcome(order: AttemptOrder, **changes: Any) -> AttemptOutcome:
    return AttemptOutcome(order.attempt_id, **changes)


def test_a_busy_phone_is_left_alone(bench: Bench, registry: MemoryRegistry) -> None:
    registry.reserve("desk", "somebody", 60)

    def run(order: AttemptOrder, cancelled: threading.Event) -> AttemptOutcome:
        raise AssertionError("it must not run")

    with pytest.raises(FarmError, match="desk is not free"):
        calibrate(bench.device, costs_job("t", "d", 1, "flash"), registry, run)


def test_a_failure_is_told_and_lets_the_phone_go(bench: Bench, registry: MemoryRegistry) -> None:
    def run(order: AttemptOrder, cancelled: threading.Event) -> AttemptOutcome:
        return outcome(order, failure_kind=FailureKind.DISK_FULL, failure_message="12 MB are free")

    with pytest.raises(FarmError, match="disk_full: 12 MB are free"):
        calibrate(bench.device, costs_job("t", "d", 1, "flash"), registry, run)
    assert registry.device("desk").state is DeviceState.READY
