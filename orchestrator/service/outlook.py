"""When the farm will be done with what it has, and why it is not at it: from the registry."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from orchestrator.registry.contract import Registry
from orchestrator.sweeps.forecast import durations, forecast, planned

REASONS = 4  # shown of a sweep


@dataclass(frozen=True)
class Outlook:
    expected: str = ""  # until the last trial of all sweeps ends, in words; empty: nothing is left to do
    waiting: dict[str, dict[str, int]] = field(default_factory=dict)  # sweep id → why its trials wait → how many


def outlook(registry: Registry) -> Outlook:
    queue = registry.queue()
    running = [registry.trial(attempt.trial_id) for attempt in registry.running()]
    open_trials = [*running, *(one.trial for one in queue)]
    if not open_trials:
        return Outlook()
    found = forecast(planned(open_trials), registry.devices(), durations(registry))
    reasons: dict[str, Counter[str]] = {}
    for one in queue:
        reasons.setdefault(one.sweep_id, Counter())[one.trial.reason or "for its turn"] += 1
    return Outlook(str(found), {s: dict(r.most_common(REASONS)) for s, r in reasons.items()})
