"""Attempts and the leases that fence them, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from orchestrator.entities import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    DeviceState,
    FailureKind,
    TrialState,
)
from orchestrator.errors import ClaimLost, LeaseLost
from orchestrator.registry import devices, events, rows, rules, sweeps
from orchestrator.registry.database import DbNow
from orchestrator.registry.models import AttemptRow, DeviceRow, LeaseRow, ResultRow, TrialRow
from orchestrator.scheduling import waiting

VIRTUAL = "virtual"  # entities.Device.kind


def start(session: Session, trial_id: str, device: str, owner: str, ttl_s: float) -> Attempt:
    trial = _trial(session, trial_id)
    if trial.state != TrialState.WAITING or trial.device not in (None, device):
        raise ClaimLost(f"trial {trial_id} is {trial.state}, or not for {device}")
    alone = waiting.alone(trial.config)
    lease = _free_lease(session, device, alone)
    trial.attempts += 1
    attempt = AttemptRow(
        attempt_id=rules.new_attempt_id(trial_id, trial.attempts),
        trial_id=trial_id,
        number=trial.attempts,
        device=device,
        state=AttemptState.RUNNING.value,
    )
    lease.exclusive = alone
    _hold(session, lease, attempt, owner, ttl_s)
    session.add(attempt)
    trial.state, trial.reason = TrialState.RUNNING.value, ""
    trial.last_device, trial.attempt_id = device, attempt.attempt_id
    session.flush()
    return _noted(session, "attempt_started", attempt)


def _trial(session: Session, trial_id: str) -> TrialRow:
    if row := session.scalars(select(TrialRow).where(TrialRow.trial_id == trial_id)).first():
        return row
    raise rules.unknown("trial", trial_id, [])


def _free_lease(session: Session, device: str, alone: bool) -> LeaseRow:
    phone = devices.stored(session, device)
    if phone.state != DeviceState.READY:
        raise ClaimLost(f"phone {device} is {phone.state}")
    if other := _in_the_way(session, phone, alone):
        raise ClaimLost(f"phone {other} is at work on host {phone.host}, and timed runs there go one at a time")
    lease = session.get_one(LeaseRow, device)
    _free(session, lease)
    return lease


def _in_the_way(session: Session, phone: DeviceRow, alone: bool) -> str | None:
    """Another phone that shares the host's cores and disk (virtual ones do) and is at work, if that matters."""
    if phone.kind != VIRTUAL:
        return None
    query = select(LeaseRow, LeaseRow.expired()).join(DeviceRow, DeviceRow.name == LeaseRow.device)
    shares = (DeviceRow.kind == VIRTUAL) & (DeviceRow.host == phone.host) & (DeviceRow.name != phone.name)
    found = session.execute(query.where(shares, LeaseRow.attempt_id.is_not(None)))
    held = [lease for lease, expired in found if rules.leased(lease.attempt_id, bool(expired))]
    return next((lease.device for lease in held if alone or lease.exclusive), None)


def _free(session: Session, lease: LeaseRow) -> None:
    if lease.attempt_id is None:
        return
    if not _expired(session, lease):
        raise ClaimLost(f"phone {lease.device} is leased to attempt {lease.attempt_id}")
    if rules.is_reservation(lease.attempt_id):
        lease.attempt_id, lease.owner = None, ""
        return
    lost = AttemptOutcome(
        lease.attempt_id, failure_kind=FailureKind.HOST_LOST, failure_message="its lease expired and was taken over"
    )
    _finish(session, lease, lost, TrialState.WAITING, charged=False)


def _hold(session: Session, lease: LeaseRow, attempt: AttemptRow, owner: str, ttl_s: float) -> None:
    _lease(session, lease, attempt.attempt_id, owner, ttl_s)
    attempt.token, attempt.owner = lease.token, owner


def _lease(session: Session, lease: LeaseRow, attempt_id: str, owner: str, ttl_s: float) -> None:
    lease.token += 1
    lease.attempt_id, lease.owner = attempt_id, owner
    _prolong(session, lease, ttl_s)


def _prolong(session: Session, lease: LeaseRow, ttl_s: float) -> None:
    lease.expires_at, lease.ttl_s = _now(session) + ttl_s, max(ttl_s, 0.0)


def _expired(session: Session, lease: LeaseRow) -> bool:
    return rules.lease_expired(_now(session), lease.expires_at, lease.ttl_s)


def reserve(session: Session, device: str, owner: str, ttl_s: float) -> Attempt:
    lease = _free_lease(session, device, alone=True)
    lease.exclusive = True
    made = rules.new_reservation(device)
    _lease(session, lease, made.attempt_id, owner, ttl_s)
    return replace(made, token=lease.token, owner=owner)


def release(session: Session, reservation: Attempt) -> None:
    lease = session.get(LeaseRow, reservation.device)
    if lease is not None and _holds(lease, reservation):
        lease.attempt_id, lease.owner = None, ""


def _noted(session: Session, kind: str, row: AttemptRow) -> Attempt:
    attempt = rows.attempt(row)
    events.append(session, [rules.attempt_event(kind, attempt, {"number": attempt.number, "owner": attempt.owner})])
    return attempt


def renew(session: Session, attempts: Sequence[Attempt], ttl_s: float) -> list[str]:
    """Three statements, however many phones are at work."""
    found = session.scalars(select(LeaseRow).where(LeaseRow.device.in_([a.device for a in attempts])))
    leases = {lease.device: lease for lease in found}
    held = [a for a in attempts if _holds(leases.get(a.device), a)]
    until = {"expires_at": _now(session) + ttl_s, "ttl_s": max(ttl_s, 0.0)}
    session.execute(update(LeaseRow).where(LeaseRow.device.in_([a.device for a in held])).values(until))
    return [a.attempt_id for a in attempts if a not in held]


def _holds(lease: LeaseRow | None, attempt: Attempt) -> bool:
    return lease is not None and (lease.attempt_id, lease.token) == (attempt.attempt_id, attempt.token)


def running(session: Session) -> list[Attempt]:
    query = select(AttemptRow, LeaseRow.expired()).join(LeaseRow, LeaseRow.attempt_id == AttemptRow.attempt_id)
    found = session.execute(query.where(AttemptRow.state == AttemptState.RUNNING).order_by(AttemptRow.started_at))
    return [rows.attempt(row, bool(expired)) for row, expired in found]


def adopt(session: Session, attempt_id: str, owner: str, ttl_s: float) -> Attempt:
    row = session.get(AttemptRow, attempt_id)
    if row is None or row.state != AttemptState.RUNNING:
        raise ClaimLost(f"attempt {attempt_id} is not running")
    lease = session.get_one(LeaseRow, row.device)
    if lease.owner != owner and not _expired(session, lease):
        raise ClaimLost(f"attempt {attempt_id} belongs to {lease.owner}")
    _hold(session, lease, row, owner, ttl_s)
    return _noted(session, "attempt_adopted", row)


def finish(session: Session, attempt: Attempt, outcome: AttemptOutcome, next_state: TrialState, charged: bool) -> None:
    lease = session.get(LeaseRow, attempt.device)
    if lease is None or not _holds(lease, attempt):
        raise LeaseLost(f"attempt {attempt.attempt_id} on {attempt.device} is no longer ours")
    _finish(session, lease, outcome, next_state, charged)


def _finish(session: Session, lease: LeaseRow, outcome: AttemptOutcome, wish: TrialState, charged: bool) -> None:
    row = session.get_one(AttemptRow, lease.attempt_id)
    trial = _trial(session, row.trial_id)
    state = rules.settled(wish, row.cancel_requested)
    row.state, row.ended_at = rules.attempt_state(outcome).value, _now(session)
    row.log_tail, row.charged = _text(outcome.log_tail), charged
    row.wall_s, row.connection_losses = outcome.attempt_wall_s, outcome.connection_losses
    kind, message = outcome.failure_kind and outcome.failure_kind.value, _text(outcome.failure_message) or None
    row.failure_kind = trial.failure_kind = kind
    row.failure_message = trial.failure_message = message
    lease.attempt_id, lease.owner = None, ""
    trial.state, trial.attempt_wall_s = state.value, outcome.attempt_wall_s
    trial.charged_failures += charged
    events.append(session, rules.finish_events(rows.attempt(row), outcome, state, charged))
    if state not in rules.OPEN:
        _settle(session, trial, outcome, state)


def _settle(session: Session, trial: TrialRow, outcome: AttemptOutcome, state: TrialState) -> None:
    if state is TrialState.DONE and outcome.result is not None:
        trial.derived = False
        rounds, nodes = _text(outcome.rounds_jsonl), outcome.nodes_packed or None
        session.merge(ResultRow(trial_id=trial.trial_id, result=outcome.result, rounds=rounds, nodes=nodes))
    for sweep in sweeps.linking(session, trial.trial_id):
        sweep.open_trials -= 1
        if state is not TrialState.CANCELLED:
            events.owe(session, "trial", [sweep.sweep_id], trial.trial_id, {"state": state.value})
        sweeps.finish_if_empty(session, sweep)
        if state is TrialState.FAILED:
            sweeps.count_failure(session, sweep)


def of_trial(session: Session, trial_id: str) -> list[Attempt]:
    query = select(AttemptRow).where(AttemptRow.trial_id == trial_id).order_by(AttemptRow.number)
    return [rows.attempt(r) for r in session.scalars(query)]


def recent(session: Session, device: str, limit: int) -> list[Attempt]:
    since = select(DeviceRow.trusted_since).where(DeviceRow.name == device).scalar_subquery()
    query = select(AttemptRow).where(AttemptRow.device == device, AttemptRow.ended_at > since)
    return [rows.attempt(r) for r in session.scalars(query.order_by(AttemptRow.ended_at.desc()).limit(limit))]


def _now(session: Session) -> float:
    return session.scalars(select(DbNow())).one()


def _text(value: str) -> str:
    return value.replace("\0", "�")  # PostgreSQL stores no NUL
