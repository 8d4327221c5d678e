"""Sweeps in the database, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ScalarSelect, Select, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from orchestrator.entities import Attempt, AttemptState, FarmEvent, Sweep, TrialState
from orchestrator.registry import events, rows, rules
from orchestrator.registry.models import AttemptRow, LinkRow, SweepRow, TrialRow


def find(session: Session, name_or_id: str) -> SweepRow:
    query = select(SweepRow).where(or_(SweepRow.name == name_or_id, SweepRow.sweep_id == name_or_id))
    if row := session.scalars(query.order_by(SweepRow.seq)).first():
        return row
    raise rules.unknown("sweep", name_or_id, session.scalars(select(SweepRow.name)), "List them: lever results")


def every(session: Session) -> list[Sweep]:
    return [rows.sweep(r) for r in session.scalars(select(SweepRow).order_by(SweepRow.seq.desc()))]


def linking(session: Session, trial_id: str) -> list[SweepRow]:
    query = select(SweepRow).join(LinkRow, LinkRow.sweep_id == SweepRow.sweep_id)
    return list(session.scalars(query.where(LinkRow.trial_id == trial_id).order_by(SweepRow.seq)))


def grow(session: Session, sweep: Sweep) -> SweepRow:
    """The sweep of this name, else of this id, made if it is new; wanted again if it was cancelled."""
    by_name = session.scalars(select(SweepRow).where(SweepRow.name == sweep.name)).first()
    row = by_name or session.scalars(select(SweepRow).where(SweepRow.sweep_id == sweep.sweep_id)).first()
    if row is None:
        row = SweepRow(sweep_id=sweep.sweep_id, name=sweep.name)
        session.add(row)
    row.record, row.max_failures, row.cancelled = sweep.record, sweep.max_failures, False
    session.flush()
    return row


def unfinished(session: Session) -> list[Sweep]:
    return [
        rows.sweep(r) for r in session.scalars(select(SweepRow).where(SweepRow.open_trials > 0).order_by(SweepRow.seq))
    ]


def counts(session: Session, sweep_id: str) -> dict[TrialState, int]:
    query = select(TrialRow.state, func.count()).join(LinkRow, LinkRow.trial_id == TrialRow.trial_id)
    found = session.execute(query.where(LinkRow.sweep_id == sweep_id).group_by(TrialRow.state))
    return {TrialState(state): n for state, n in found}


def recount(session: Session, sweep_ids: Select[str]) -> None:
    """Set `open_trials` and `failed_trials` of these sweeps; done when trials are queued or cancelled, never once a
    finished trial."""
    session.execute(
        update(SweepRow)
        .where(SweepRow.sweep_id.in_(sweep_ids))
        .values(open_trials=_number(*rules.OPEN), failed_trials=_number(TrialState.FAILED)),
        execution_options={"synchronize_session": False},
    )
    session.expire_all()


def _number(*states: TrialState) -> ScalarSelect[int]:
    """How many trials of the sweep at hand are in one of these states."""
    counted = select(func.count()).select_from(LinkRow).join(TrialRow, TrialRow.trial_id == LinkRow.trial_id)
    mine = counted.where(LinkRow.sweep_id == SweepRow.sweep_id, TrialRow.state.in_([s.value for s in states]))
    return mine.correlate(SweepRow).scalar_subquery()


def count_failure(session: Session, sweep: SweepRow) -> None:
    sweep.failed_trials += 1
    if sweep.max_failures is not None and sweep.failed_trials >= sweep.max_failures and sweep.open_trials:
        cancel(session, sweep)


def finish_if_empty(session: Session, sweep: SweepRow) -> None:
    if sweep.open_trials == 0:
        events.append(session, [FarmEvent("sweep_finished", sweep_id=sweep.sweep_id)])
        events.owe(session, "sweep", [sweep.sweep_id], None, {"event": "finished"})


def cancel(session: Session, sweep: SweepRow) -> list[Attempt]:
    first, sweep.cancelled = not sweep.cancelled, True
    session.flush()
    unwanted = _unwanted(sweep.sweep_id)
    closed = session.execute(
        update(TrialRow)
        .where(TrialRow.trial_id.in_(unwanted), TrialRow.state == TrialState.WAITING)
        .values(state=TrialState.CANCELLED, reason="")
        .returning(TrialRow.trial_id),
        execution_options={"synchronize_session": False},
    ).all()
    stop = session.scalars(
        update(AttemptRow)
        .where(AttemptRow.trial_id.in_(unwanted), AttemptRow.state == AttemptState.RUNNING)
        .values(cancel_requested=True)
        .returning(AttemptRow),
        execution_options={"synchronize_session": False, "populate_existing": True},
    ).all()
    attempts = [rows.attempt(a) for a in stop]
    if first:
        _note_cancelled(session, sweep, len(closed), attempts)
    return attempts


def _note_cancelled(session: Session, sweep: SweepRow, closed: int, running: Sequence[Attempt]) -> None:
    data = {"waiting": closed, "running": len(running)}
    events.append(session, [FarmEvent("sweep_cancelled", sweep_id=sweep.sweep_id, data=data)])
    mine = select(LinkRow.trial_id).where(LinkRow.sweep_id == sweep.sweep_id)
    recount(session, select(LinkRow.sweep_id).where(LinkRow.trial_id.in_(mine)).distinct())
    finish_if_empty(session, sweep)


def _unwanted(sweep_id: str) -> Select[str]:
    """Trials of this sweep that no sweep which is not cancelled wants."""
    other, owner = aliased(LinkRow), aliased(SweepRow)
    wanted = exists().where(other.trial_id == LinkRow.trial_id, owner.sweep_id == other.sweep_id, ~owner.cancelled)
    return select(LinkRow.trial_id).where(LinkRow.sweep_id == sweep_id, ~wanted)
