"""Complete done trials with what only a comparison tells: exactness against a reference, speed-up. Blocking."""

from __future__ import annotations

import logging

from orchestrator.comparison import compare, is_new_baseline
from orchestrator.entities import Trial
from orchestrator.registry.contract import Registry

log = logging.getLogger(__name__)
AT_ONCE = 20


def compare_new(registry: Registry) -> int:
    """Compare the oldest done trials that are not compared. A new baseline lets those be compared again that it may
    complete. Durable step by step: after a crash the rest is still to be done. Returns how many were compared."""
    found = registry.underived(AT_ONCE)
    for trial in found:
        if is_new_baseline(trial):
            registry.compare_again(trial)
        _complete(registry, trial, registry.baselines(trial))
    return len(found)


def _complete(registry: Registry, trial: Trial, baselines: list[Trial]) -> None:
    try:
        metrics, tags = compare(trial, baselines)
    except ValueError as error:  # a result that an older version wrote
        log.warning("trial %s cannot be compared: %s", trial.spec.trial_id, error)
        metrics, tags = {}, {"comparison": f"impossible: {error}"}
    registry.set_derived(trial.spec.trial_id, metrics, tags)
