"""Complete done trials with what only a comparison tells: exactness against a reference, speed-up. Blocking."""

from __future__ import annotations

import logging

from orchestrator.comparison import BASELINE, compare
from orchestrator.entities import Trial
from orchestrator.registry.contract import Registry

log = logging.getLogger(__name__)
AT_ONCE = 20


def compare_new(registry: Registry) -> int:
    """Compare the done trials that nobody compared yet, and those that waited for them: a baseline completes all that
    are related to it. Durable step by step: after a crash the rest is still to be done. Returns how many were new."""
    new = registry.underived(AT_ONCE)
    for trial in new:
        key = trial.spec.labels.get("reference_key", "")
        baselines = registry.related(key, BASELINE)
        if trial.spec.labels.get("strategy") == BASELINE:
            for other in registry.related(key):
                if other.spec.trial_id != trial.spec.trial_id:
                    _complete(registry, other, baselines)
        _complete(registry, trial, baselines)
    return len(new)


def _complete(registry: Registry, trial: Trial, baselines: list[Trial]) -> None:
    try:
        metrics, tags = compare(trial, baselines)
    except ValueError as error:  # a result that an older version wrote
        log.warning("trial %s cannot be compared: %s", trial.spec.trial_id, error)
        metrics, tags = {}, {"comparison": f"impossible: {error}"}
    registry.set_derived(trial.spec.trial_id, metrics, tags)
