"""Rows to entities."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from orchestrator.entities import (
    Attempt,
    AttemptState,
    Device,
    DeviceState,
    FarmEvent,
    Sweep,
    Trial,
    TrialSpec,
    TrialState,
)
from orchestrator.registry import rules
from orchestrator.registry.contract import OutboxItem
from orchestrator.registry.models import AttemptRow, DeviceRow, EventRow, OutboxRow, SweepRow, TrialRow


def device(row: DeviceRow, leased: bool) -> Device:
    return Device(
        name=row.name,
        address=row.address,
        kind=row.kind,
        host=row.host,
        serial=row.serial,
        root=row.root,
        state=rules.shown(DeviceState(row.state), leased),
        state_reason=row.state_reason,
        facts=row.facts,
        tags=tuple(row.tags),
        state_since=row.state_since,
    )


def sweep(row: SweepRow) -> Sweep:
    return Sweep(row.sweep_id, row.name, _time(row.created_at), row.record, row.max_failures)


def trial(row: TrialRow, job: dict[str, Any], result: dict[str, Any] | None) -> Trial:
    """`job` apart: it is large and loaded only where it is wanted."""
    return Trial(
        spec=TrialSpec(row.trial_id, row.device, row.repeat, row.config, job, row.labels),
        state=TrialState(row.state),
        attempts=row.attempts,
        charged_failures=row.charged_failures,
        device=row.last_device,
        result=result,
        failure_kind=row.failure_kind,
        failure_message=row.failure_message,
        attempt_id=row.attempt_id,
        attempt_wall_s=row.attempt_wall_s,
        reason=row.reason,
        earlier_attempts=row.earlier_attempts,
    )


def attempt(row: AttemptRow, lease_expired: bool = False) -> Attempt:
    return Attempt(
        attempt_id=row.attempt_id,
        trial_id=row.trial_id,
        device=row.device,
        token=row.token,
        state=AttemptState(row.state),
        number=row.number,
        started_at=_time(row.started_at),
        ended_at=_time(row.ended_at) if row.ended_at is not None else None,
        failure_kind=row.failure_kind,
        failure_message=row.failure_message,
        log_tail=row.log_tail,
        charged=row.charged,
        owner=row.owner,
        lease_expired=lease_expired,
        cancel_requested=row.cancel_requested,
    )


def event(row: EventRow) -> FarmEvent:
    return FarmEvent(
        row.kind, row.event_id, _time(row.at), row.sweep_id, row.trial_id, row.attempt_id, row.device, row.data
    )


def outbox_item(row: OutboxRow) -> OutboxItem:
    return OutboxItem(row.item_id, row.kind, row.sweep_id, row.trial_id, row.payload)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
