"""A registry with a sweep that ran, for what reads registries."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

from device_agent.protocol import RequestResult, to_json
from orchestrator.entities import AttemptOutcome, FailureKind, Sweep, TrialSpec, TrialState
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from tests.fakes import trials as fake

NODES = "".join(json.dumps(to_json(node)) + "\n" for node in fake.node_traces())
ROUNDS = "".join(json.dumps(to_json(fake.round_trace(i))) + "\n" for i in range(3))


def farm() -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.put_device(fake.phone("oneplus12"))
    registry.put_device(fake.phone("pixel8"))
    return registry


def submit(registry: Registry, name: str, specs: Sequence[TrialSpec]) -> Sweep:
    overrides = [["engine=autoregressive"], ["engine=chain"]]
    record = {"overrides": overrides, "git_revision": "abc", "packages": {"ray": "2.60"}}
    return registry.submit(Sweep(f"id-{name}", name, record=record), specs).sweep


def finish(
    registry: Registry,
    spec: TrialSpec,
    metrics: dict[str, float] | None = None,
    requests: Sequence[RequestResult] = (),
    tags: dict[str, str] | None = None,
) -> None:
    """Run one attempt of the trial to its end."""
    attempt = registry.start_attempt(spec.trial_id, spec.device or "oneplus12", "test", 60)
    outcome = fake.result(spec.trial_id, requests, metrics, tags, attempt.attempt_id)
    traces: dict[str, Any] = {
        "rounds_jsonl": ROUNDS,
        "nodes_packed": base64.b64encode(gzip.compress(NODES.encode())).decode(),
    }
    done = AttemptOutcome(attempt.attempt_id, result=outcome, attempt_wall_s=12.5, **traces)
    registry.finish_attempt(attempt, done, TrialState.DONE, charged=False)


def fail(registry: Registry, spec: TrialSpec, message: str = "no space left") -> None:
    attempt = registry.start_attempt(spec.trial_id, spec.device or "oneplus12", "test", 60)
    failed = AttemptOutcome(
        attempt.attempt_id,
        failure_kind=FailureKind.DISK_FULL,
        failure_message=message,
        log_tail="last words",
    )
    registry.finish_attempt(attempt, failed, TrialState.FAILED, charged=True)
