"""What an outcome means, written to the registry. Blocking."""

from __future__ import annotations

import logging

from orchestrator.entities import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    DeviceState,
    FailureKind,
    FarmEvent,
    Trial,
    TrialState,
)
from orchestrator.registry.contract import Registry
from orchestrator.retry import QUARANTINE_AFTER, Decision, Failure, Next, decide, quarantine_reason
from orchestrator.scheduling.selector import ANY, candidates

log = logging.getLogger(__name__)
MAX_ATTEMPTS = 3
STATES = {
    Next.SAME_PHONE: TrialState.WAITING,
    Next.OTHER_PHONE: TrialState.WAITING,
    Next.GIVE_UP: TrialState.FAILED,
    Next.STOP: TrialState.CANCELLED,
}
EXPLAINED = 200  # oldest waiting trials
LOOK_BACK = 4 * QUARANTINE_AFTER  # attempts; those that say nothing about the phone are skipped


def record(registry: Registry, trial: Trial, attempt: Attempt, outcome: AttemptOutcome) -> None:
    """Raises LeaseLost: somebody else owns the attempt and records its outcome."""
    if outcome.failure_kind is None:
        registry.finish_attempt(attempt, outcome, TrialState.DONE, charged=False)
        return
    decision = _decision(registry, trial, Failure(outcome.failure_kind, attempt.device))
    registry.finish_attempt(attempt, outcome, STATES[decision.next], decision.charged)


def _decision(registry: Registry, trial: Trial, failure: Failure) -> Decision:
    earlier = [
        Failure(FailureKind(a.failure_kind), a.device)
        for a in registry.attempts(trial.spec.trial_id)
        if a.number > trial.earlier_attempts and a.state is AttemptState.FAILED and a.failure_kind
    ]
    choices = 1 if trial.spec.device else len(candidates(registry.devices(), str(trial.spec.config.get("phones", ANY))))
    max_attempts = int(trial.spec.config.get("schedule", {}).get("max_attempts", MAX_ATTEMPTS))
    return decide([*earlier, failure], choices, max_attempts)


def refuse(registry: Registry, attempt: Attempt, error: Exception) -> None:
    """End an attempt that could not even be ordered: its trial is nothing that this version can run."""
    message = f"this version cannot run it: {error}"
    outcome = AttemptOutcome(attempt.attempt_id, failure_kind=FailureKind.BAD_SPEC, failure_message=message)
    registry.finish_attempt(attempt, outcome, TrialState.FAILED, charged=True)


def note_pause(registry: Registry, why: str) -> None:
    """For people: nothing is started until further notice, or (empty) it is again."""
    registry.add_event(FarmEvent("farm_paused" if why else "farm_resumed", data={"reason": why} if why else {}))
    if why:
        oldest = registry.queue()[:EXPLAINED]
        registry.set_waiting_reason({one.trial.spec.trial_id: why for one in oldest})


def judge_phones(registry: Registry) -> None:
    """For a controller that starts: the one before may have died between an outcome and what follows from it."""
    for device in registry.devices():
        judge_phone(registry, device.name)


def judge_phone(registry: Registry, device: str) -> None:
    """Quarantine the phone if it keeps failing."""
    recent = registry.recent_attempts(device, LOOK_BACK)
    reason = quarantine_reason([FailureKind(a.failure_kind) if a.failure_kind else None for a in recent])
    if reason and registry.device(device).state in (DeviceState.READY, DeviceState.BUSY):
        last = next(a.failure_message for a in recent if a.failure_kind)
        log.warning("phone %s is quarantined: %s", device, reason)
        registry.set_device_state(device, DeviceState.QUARANTINED, f"{reason} (the last: {last})")
