"""Measure what passes cost on one phone, while nothing else runs there: a job like any other, but of no trial."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from device_agent.protocol import ANYWHERE, PROTOCOL_VERSION, CoresSpec, EngineSpec, JobSpec, StorageSpec, to_json
from orchestrator.cost_key import cost_key
from orchestrator.entities import AttemptOrder, AttemptOutcome, Device, Progress
from orchestrator.errors import FarmError, PhoneError
from orchestrator.farm.agent_client import forget_attempt, run_attempt
from orchestrator.farm.connecting import Connect
from orchestrator.farm.holding import held
from orchestrator.farm.parcel import PackStore
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings

DEADLINE_S = 1800.0
N_CTX = 1024

Run = Callable[[AttemptOrder, threading.Event], AttemptOutcome]
"""Runs an attempt to its end; the event cancels it."""


def costs_job(
    target_pack: str, draft_pack: str, threads: int, mode: str, placement: str = "cpu", cores: CoresSpec = ANYWHERE
) -> JobSpec:
    """`threads` do not matter where `cores` are automatic."""
    threads = 0 if cores.auto else threads
    engine = EngineSpec(storage=StorageSpec(mode), placement=placement, threads=threads, cores=cores, n_ctx=N_CTX)
    return JobSpec(PROTOCOL_VERSION, "", "", target_pack, draft_pack, engine, (), 1, (), kind="costs")


def calibrate(device: Device, job: JobSpec, registry: Registry, run: Run) -> dict[str, Any]:
    """Measured anew and kept under its key; returns CostCalibration as JSON. Raises FarmError when the phone is not
    free or the agent failed."""
    key = cost_key(device, to_json(job))
    assert key is not None, "a costs job has a draft model"
    with held(device, registry, "calibrate") as (attempt, lost):
        job = replace(job, attempt_id=attempt.attempt_id, flash_profile_mb_s=_flash_cap(device))
        outcome = run(AttemptOrder(attempt.attempt_id, device, to_json(job), DEADLINE_S), lost)
    if outcome.result is None or not outcome.result.get("costs"):
        raise FarmError(
            f"phone {device.name} was not calibrated: {outcome.failure_kind or 'no costs'}: {outcome.failure_message}",
            f"Try again: lever phones calibrate {device.name}",
        )
    costs = {**outcome.result["costs"], "key": key}
    registry.put_costs(device.name, key, costs)
    return costs


def runner(connect: Connect, store: PackStore, settings: Settings, report: Callable[[Progress], None]) -> Run:
    """Runs on the phone itself, and removes what the job left there."""

    def run(order: AttemptOrder, cancelled: threading.Event) -> AttemptOutcome:
        try:
            return run_attempt(order, connect, store, settings, report, cancelled)
        finally:  # interrupted or not: nothing stays there, running or written
            with suppress(PhoneError):
                forget_attempt(order, connect)

    return run


def _flash_cap(device: Device) -> float | None:
    """Of a virtual phone, whose flash is held to its profile's speed."""
    flash = device.facts.get("flash_mb_s")
    return float(flash) if flash and device.simulated else None
