"""What waits, and how long what ran took, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from orchestrator.entities import AttemptState, TrialState
from orchestrator.registry import rows
from orchestrator.registry.contract import Queued
from orchestrator.registry.models import AttemptRow, LinkRow, SweepRow, TrialRow

WAITING = TrialRow.state == TrialState.WAITING


def queued(session: Session, trial_ids: Sequence[str] | None, sweep_id: str | None) -> list[Queued]:
    wanted = select(SweepRow.sweep_id).join(LinkRow, LinkRow.sweep_id == SweepRow.sweep_id)
    mine = wanted.where(LinkRow.trial_id == TrialRow.trial_id, ~SweepRow.cancelled).order_by(SweepRow.seq).limit(1)
    query = select(TrialRow, mine.correlate(TrialRow).scalar_subquery()).where(WAITING).order_by(TrialRow.seq)
    if trial_ids is not None:
        query = query.where(TrialRow.trial_id.in_(trial_ids))
    if sweep_id is not None:
        linked = select(LinkRow.trial_id).where(LinkRow.sweep_id == sweep_id)
        query = query.where(TrialRow.trial_id.in_(linked))
    found = session.execute(query)
    return [Queued(row.seq, owner or "", rows.trial(row, {}, None)) for row, owner in found]


def length(session: Session) -> int:
    return session.scalars(select(func.count()).select_from(TrialRow).where(WAITING)).one()


def lasted(session: Session, limit: int) -> list[tuple[dict[str, str], str, float]]:
    """By attempts, whose index on state keeps the newest within reach."""
    done = select(AttemptRow.trial_id, AttemptRow.device, AttemptRow.wall_s, AttemptRow.ended_at)
    newest = done.where(AttemptRow.state == AttemptState.DONE).order_by(AttemptRow.ended_at.desc()).limit(limit)
    recent = newest.subquery()
    query = select(TrialRow.labels, recent.c.device, recent.c.wall_s).join(
        recent, recent.c.trial_id == TrialRow.trial_id
    )
    return [(labels, device, wall_s) for labels, device, wall_s in session.execute(query.order_by(recent.c.ended_at))]
