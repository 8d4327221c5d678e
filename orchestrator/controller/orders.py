"""From a trial and the attempt at it to what an executor gets."""

from __future__ import annotations

from typing import Any

from device_agent.protocol import EnergySpec, to_json
from orchestrator.entities import Attempt, AttemptOrder, Device, Trial

DEADLINE_S = 3600.0


def order(trial: Trial, attempt: Attempt, device: Device, costs: dict[str, Any] | None = None) -> AttemptOrder:
    """`costs`: what passes cost on the phone, if that was calibrated. It is no part of the trial: without it the agent
    measures the same itself."""
    job = {**trial.spec.job, "attempt_id": attempt.attempt_id, "costs": costs}
    if trial.spec.device is None:
        job |= _of_phone(device)
    deadline_s = float(trial.spec.config.get("schedule", {}).get("deadline_s", DEADLINE_S))
    return AttemptOrder(attempt.attempt_id, device, job, deadline_s)


def _of_phone(device: Device) -> dict[str, Any]:
    """What a trial that is bound to no phone learns only now: the phone's stated power model and flash bandwidth."""
    power, flash = device.facts.get("power_model"), device.facts.get("flash_mb_s")
    return {
        "energy": to_json(EnergySpec("model", **power) if power else EnergySpec()),
        "flash_profile_mb_s": float(flash) if flash and device.simulated else None,
    }
