"""What waits, as far as a look needs it. Blocking."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.entities import AttemptState, Device, DeviceState, Trial
from orchestrator.registry.contract import Registry

EXPLAINED = 200  # oldest waiting trials that get a reason; those behind wait for their turn
PER_QUEUE = 8  # trials that one phone or one selector offers at a time


def queued(registry: Registry, devices: Sequence[Device]) -> list[Trial]:
    """The oldest, and the oldest of every queue that a free phone could serve."""
    free = [d.name for d in devices if d.state is DeviceState.READY]
    trials = {t.spec.trial_id: t for t in registry.waiting(EXPLAINED)}
    if len(trials) == EXPLAINED:
        trials |= {t.spec.trial_id: t for t in registry.waiting(max(PER_QUEUE, len(free)), free)}
    return list(trials.values())


def avoided(registry: Registry, waiting: Sequence[Trial]) -> dict[str, frozenset[str]]:
    """Phones on which a trial that is bound to none failed, by trial id."""
    again = [t for t in waiting if t.spec.device is None and t.attempts > t.earlier_attempts]
    return {t.spec.trial_id: _failed_on(registry, t) for t in again}


def _failed_on(registry: Registry, trial: Trial) -> frozenset[str]:
    attempts = registry.attempts(trial.spec.trial_id)
    return frozenset(a.device for a in attempts if a.state is AttemptState.FAILED and a.number > trial.earlier_attempts)
