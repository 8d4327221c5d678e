"""What a soak found: figures, and everything that is not as it has to be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from orchestrator.entities import Attempt, AttemptState, DeviceState, Trial, TrialState
from orchestrator.errors import LeverError
from orchestrator.farm.connecting import connector
from orchestrator.farm.health import probe
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings
from tests.fakes import mlflow_store
from tests.soak.doctor import Quarantine
from tests.soak.ledger import Ledger

PAGE = 10_000  # events a query


def trial_violations(trials: Sequence[Trial], registry: Registry, ledger: Ledger) -> list[str]:
    """Lost, recorded twice, inexact, or failed under a name that nothing explains."""
    found = []
    for trial in trials:
        attempts = registry.attempts(trial.spec.trial_id)
        done = [a for a in attempts if a.state is AttemptState.DONE]
        name = f"trial {trial.spec.trial_id[:12]} on {trial.device}"
        if trial.state is not TrialState.DONE or len(done) != 1:
            found.append(f"{name}: {trial.state}, {len(done)} results in {len(attempts)} attempts")
        elif not str((trial.result or {})["tags"]["exactness"]).startswith(("exact", "tie")):
            found.append(f"{name}: {(trial.result or {})['tags']['exactness']}")
        found += [f"{name}: {why}" for a in attempts if (why := _unexplained(a, ledger))]
    return found


def twice_in_events(registry: Registry) -> list[str]:
    done: Counter[str] = Counter()
    after = 0
    while events := registry.events(after, limit=PAGE):
        done.update(e.trial_id for e in events if e.kind == "trial_done" and e.trial_id)
        after = events[-1].event_id
    return [f"trial {trial_id[:12]} was done {times} times" for trial_id, times in done.items() if times > 1]


def mlflow_violations(settings: Settings, sweep: str, trials: Sequence[Trial]) -> list[str]:
    """One run for each trial, one point for each metric."""
    client = mlflow_store.client(settings.tracking_uri)
    experiment = client.get_experiment_by_name(sweep)
    runs = client.search_runs([experiment.experiment_id], max_results=5000) if experiment else []
    of_trial: dict[str, list[Any]] = {}
    for run in runs:
        if run.data.tags["kind"] == "trial":
            of_trial.setdefault(run.data.tags["trial"], []).append(run)
    found = [
        f"trial {trial.spec.trial_id[:12]} has {len(of_trial.get(trial.spec.trial_id, []))} runs in MLflow"
        for trial in trials
        if len(of_trial.get(trial.spec.trial_id, [])) != 1
    ]
    for trial_id, (run, *_) in of_trial.items():
        points = len(client.get_metric_history(run.info.run_id, "tpot_s"))
        found += [f"trial {trial_id[:12]} has {points} points of tpot_s in MLflow"] if points != 1 else []
    return found


def untrue_quarantines(seen: Sequence[Quarantine], registry: Registry, ledger: Ledger) -> list[str]:
    """Every failure that a quarantine names was caused by what was done to that phone shortly before."""
    found = []
    for quarantine in seen:
        kinds = re.findall(r"[a-z_]+", quarantine.reason.partition(": ")[2].partition(" (")[0])
        ends = [a.ended_at.timestamp() for a in registry.recent_attempts(quarantine.phone, PAGE) if a.ended_at]
        three = [end for end in ends if end <= quarantine.at + 1][:3]
        since = min(three, default=quarantine.at) - 240
        wrong = [kind for kind in kinds if not ledger.explains(quarantine.phone, kind, since, quarantine.at)]
        found += [f"{quarantine.phone} was quarantined for {kind}: {quarantine.reason}" for kind in wrong]
        found += [] if kinds else [f"{quarantine.phone} was quarantined without a reason: {quarantine.reason!r}"]
    return found


def sick_phones(settings: Settings, registry: Registry) -> list[str]:
    """After everything is mended: each answers, and the farm has it as ready."""
    found = []
    for device in registry.devices():
        if device.state is not DeviceState.READY:
            found.append(f"{device.name} is {device.state}: {device.state_reason}")
        try:
            with connector(settings)(device) as phone:
                probe(phone)
        except LeverError as error:
            found.append(f"{device.name} does not answer: {error.message}")
    return found


def counts(registry: Registry, trials: Sequence[Trial], ledger: Ledger) -> dict[str, Any]:
    attempts = [a for trial in trials for a in registry.attempts(trial.spec.trial_id)]
    injuries = ledger.all()
    kinds: Counter[str] = Counter()
    after = 0
    while events := registry.events(after, limit=PAGE):
        kinds.update(str(e.data.get("kind")) for e in events if e.kind == "progress")
        after = events[-1].event_id
    return {
        "trials": len(trials),
        "attempts": len(attempts),
        "failed_attempts": dict(Counter(a.failure_kind for a in attempts if a.failure_kind)),
        "charged_failures": sum(a.charged for a in attempts),
        "connections_lost": kinds["connection_lost"],
        "reattached": kinds["reattached"],
        "faults": dict(Counter(i.fault for i in injuries if i.landed)),
        "faults_landed": sum(i.landed for i in injuries),
        "faults_that_found_nothing": sum(not i.landed for i in injuries),
    }


def _unexplained(attempt: Attempt, ledger: Ledger) -> str:
    if not attempt.failure_kind or not attempt.started_at or not attempt.ended_at:
        return ""
    start, end = attempt.started_at.timestamp(), attempt.ended_at.timestamp()
    if ledger.explains(attempt.device, attempt.failure_kind, start, end):
        return ""
    done = sorted({i.fault for i in ledger.all() if i.phone == attempt.device and i.covers(start, end)})
    return f"{attempt.failure_kind} ({attempt.failure_message}), after {', '.join(done) or 'no fault'}"
