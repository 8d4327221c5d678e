"""What an outcome means, written to the registry. Blocking."""

from __future__ import annotations

import logging

from orchestrator.entities import Attempt, AttemptOutcome, AttemptState, DeviceState, FailureKind, Trial, TrialState
from orchestrator.registry.contract import Registry
from orchestrator.retry import QUARANTINE_AFTER, Decision, Failure, Next, decide, quarantine_reason
from orchestrator.scheduling.choose import candidates_of

log = logging.getLogger(__name__)
MAX_ATTEMPTS = 3
STATES = {
    Next.SAME_PHONE: TrialState.WAITING,
    Next.OTHER_PHONE: TrialState.WAITING,
    Next.GIVE_UP: TrialState.FAILED,
    Next.STOP: TrialState.CANCELLED,
}
LOOK_BACK = 4 * QUARANTINE_AFTER  # attempts; those that say nothing about the phone are skipped


def record(registry: Registry, trial: Trial, attempt: Attempt, outcome: AttemptOutcome) -> TrialState:
    """Returns the state asked for. Raises LeaseLost: somebody else owns the attempt and records its outcome."""
    if outcome.failure_kind is None:
        registry.finish_attempt(attempt, outcome, TrialState.DONE, charged=False)
        return TrialState.DONE
    decision = _decision(registry, trial, Failure(outcome.failure_kind, attempt.device))
    registry.finish_attempt(attempt, outcome, STATES[decision.next], decision.charged)
    return STATES[decision.next]


def _decision(registry: Registry, trial: Trial, failure: Failure) -> Decision:
    earlier = [
        Failure(FailureKind(a.failure_kind), a.device)
        for a in registry.attempts(trial.spec.trial_id)
        if a.number > trial.earlier_attempts and a.state is AttemptState.FAILED and a.failure_kind
    ]
    choices = 1 if trial.spec.device else len(candidates_of(trial, registry.devices()))
    max_attempts = int(trial.spec.config.get("schedule", {}).get("max_attempts", MAX_ATTEMPTS))
    return decide([*earlier, failure], choices, max_attempts)


def aftermath(registry: Registry, trial: Trial, device: str, state: TrialState) -> None:
    """Quarantine the phone if it keeps failing; end the sweeps that end with their first failed trial."""
    _judge_phone(registry, device)
    if state is TrialState.FAILED and trial.spec.config.get("schedule", {}).get("fail_fast"):
        for sweep in registry.sweeps_of(trial.spec.trial_id):
            registry.cancel(sweep.sweep_id)


def _judge_phone(registry: Registry, device: str) -> None:
    recent = registry.recent_attempts(device, LOOK_BACK)
    reason = quarantine_reason([FailureKind(a.failure_kind) if a.failure_kind else None for a in recent])
    if reason and registry.device(device).state in (DeviceState.READY, DeviceState.BUSY):
        last = next(a.failure_message for a in recent if a.failure_kind)
        log.warning("phone %s is quarantined: %s", device, reason)
        registry.set_device_state(device, DeviceState.QUARANTINED, f"{reason} (the last: {last})")
