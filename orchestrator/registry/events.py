"""Append-only events and the tracker's outbox, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, delete, exists, func, insert, or_, select
from sqlalchemy.orm import Session

from orchestrator.entities import FarmEvent
from orchestrator.registry import rows
from orchestrator.registry.contract import OutboxItem
from orchestrator.registry.models import STATES, EventRow, LinkRow, OutboxRow, TrackingRunRow


def append(session: Session, events: Sequence[FarmEvent]) -> None:
    if events:
        session.execute(insert(EventRow), [_values(e) for e in events])


def append_one(session: Session, event: FarmEvent) -> int:
    """Returns the event's id."""
    return session.scalars(insert(EventRow).values(_values(event)).returning(EventRow.event_id)).one()


def _values(event: FarmEvent) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "sweep_id": event.sweep_id,
        "trial_id": event.trial_id,
        "attempt_id": event.attempt_id,
        "device": event.device,
        "data": event.data,
    }


def after(session: Session, after_id: int, sweep_id: str | None, limit: int) -> list[FarmEvent]:
    query = select(EventRow).where(EventRow.event_id > after_id).order_by(EventRow.event_id).limit(limit)
    if sweep_id is not None:
        linked = exists().where(and_(LinkRow.sweep_id == sweep_id, LinkRow.trial_id == EventRow.trial_id))
        query = query.where(or_(EventRow.sweep_id == sweep_id, linked))
    return [rows.event(r) for r in session.scalars(query)]


def of_device(session: Session, device: str, limit: int) -> list[FarmEvent]:
    """Its states, newest first; written so that SQLite sees that the partial index holds all of them."""
    query = select(EventRow).where(STATES, EventRow.device == device).order_by(EventRow.event_id.desc()).limit(limit)
    return [rows.event(r) for r in session.scalars(query)]


def last_id(session: Session) -> int:
    return session.scalars(select(func.max(EventRow.event_id))).one() or 0


def owe(session: Session, kind: str, sweep_ids: Sequence[str], trial_id: str | None, payload: dict[str, Any]) -> None:
    """Never merged with an item that is still owed: the tracker may be writing that one out right now."""
    if sweep_ids:
        session.execute(
            insert(OutboxRow),
            [{"kind": kind, "sweep_id": s, "trial_id": trial_id, "payload": payload} for s in sweep_ids],
        )


def owed(session: Session, limit: int) -> list[OutboxItem]:
    return [rows.outbox_item(r) for r in session.scalars(select(OutboxRow).order_by(OutboxRow.item_id).limit(limit))]


def settle(session: Session, item_ids: Sequence[int]) -> None:
    session.execute(delete(OutboxRow).where(OutboxRow.item_id.in_(item_ids)))


def run_id(session: Session, sweep_id: str, trial_id: str | None) -> str | None:
    row = session.get(TrackingRunRow, (sweep_id, trial_id or ""))
    return row.run_id if row else None


def set_run_id(session: Session, sweep_id: str, trial_id: str | None, run: str) -> None:
    session.merge(TrackingRunRow(sweep_id=sweep_id, trial_id=trial_id or "", run_id=run))
