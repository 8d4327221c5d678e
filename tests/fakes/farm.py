"""Phones, trials and outcomes for tests of the registry, the scheduler and the controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from orchestrator.entities import (
    Attempt,
    AttemptOutcome,
    Device,
    DeviceState,
    FailureKind,
    Sweep,
    TrialSpec,
    TrialState,
)
from orchestrator.registry.contract import Registry, Submission

PHONE = "oneplus12"


class HandClock:
    """Unix seconds that move only when told."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def phone(name: str = PHONE, state: DeviceState = DeviceState.READY, host: str = "here", **changes: Any) -> Device:
    facts = changes.pop("facts", {"soc": "SM8650", "ram_mb": 16_000})
    return Device(
        name=name,
        address=f"tcp:127.0.0.1:{sum(name.encode())}",
        kind="virtual",
        host=host,
        serial=f"serial-{name}",
        root="/data/local/tmp/lever",
        state=state,
        facts=facts,
        **changes,
    )


def trial(trial_id: str, device: str | None = PHONE, reference: str = "ref", **config: Any) -> TrialSpec:
    return TrialSpec(
        trial_id=trial_id,
        device=device,
        repeat=0,
        config={"phones": "each", "schedule": {"exclusive_host": False, "deadline_s": 60.0}, **config},
        job={"trial_id": trial_id, "attempt_id": ""},
        labels={"reference_key": reference, "strategy": "chain"},
    )


def variant(
    trial_id: str,
    baseline: str,
    *,
    strategy: str = "chain",
    storage: str = "flash",
    repeat: int = 0,
    device: str | None = PHONE,
    reference: str = "ref",
) -> TrialSpec:
    """A trial with all labels that comparisons go by."""
    made = trial(trial_id, device, reference)
    labels = {**made.labels, "baseline_key": baseline, "strategy": strategy, "storage": storage}
    return replace(made, repeat=repeat, labels=labels)


def done(attempt: Attempt, **metrics: float) -> AttemptOutcome:
    result = {"trial_id": attempt.trial_id, "ok": True, "metrics": metrics or {"tpot_s": 0.5}, "tags": {}}
    traces: dict[str, Any] = {"rounds_jsonl": '{"round": 0}\n', "nodes_packed": "packed"}
    return AttemptOutcome(attempt.attempt_id, result=result, attempt_wall_s=2.5, **traces)


def failed(attempt: Attempt, kind: FailureKind = FailureKind.ENGINE_ERROR) -> AttemptOutcome:
    return AttemptOutcome(attempt.attempt_id, failure_kind=kind, failure_message=f"went {kind}", log_tail="the log")


def submit(registry: Registry, *trial_ids: str, sweep: str = "s") -> Submission:
    """A sweep of these trials, for PHONE."""
    return registry.submit(Sweep(f"id-{sweep}", sweep), [trial(t) for t in trial_ids])


def run(registry: Registry, trial_id: str, device: str = PHONE, ttl_s: float = 60.0) -> Attempt:
    return registry.start_attempt(trial_id, device, "me", ttl_s)


def finish(
    registry: Registry, trial_id: str, outcome: Callable[[Attempt], AttemptOutcome] = done, state: str = "done"
) -> Attempt:
    """Start and end one attempt of this trial."""
    attempt = run(registry, trial_id)
    registry.finish_attempt(attempt, outcome(attempt), TrialState(state), charged=state != "done")
    return attempt


def kinds(registry: Registry, sweep_id: str | None = None) -> list[str]:
    """Of its events."""
    return [e.kind for e in registry.events(sweep_id=sweep_id)]
