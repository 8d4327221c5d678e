"""Trials in the database, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from sqlalchemy import Select, func, insert, select, update
from sqlalchemy.orm import Session, undefer

from orchestrator.comparison import streamed
from orchestrator.entities import FarmEvent, Sweep, Trial, TrialSpec, TrialState
from orchestrator.registry import events, rows, rules, sweeps
from orchestrator.registry.contract import Submission
from orchestrator.registry.models import AttemptRow, LinkRow, ResultRow, TrialRow

CHUNK = 500  # ids in one statement: databases limit bound values


def submit(session: Session, sweep: Sweep, specs: Sequence[TrialSpec], rerun: bool) -> Submission:
    row = sweeps.grow(session, sweep)
    wanted = {s.trial_id: s for s in specs}
    groups = _sorted_out(wanted, _states(session, list(wanted)), rerun)
    new = [wanted[t] for t in groups["new"]]
    if new:
        session.execute(insert(TrialRow), [{"trial_id": s.trial_id, **_queued(s)} for s in new])
    for trial_id in groups["again"]:
        _requeue(session, wanted[trial_id])
    linked = _link(session, row.sweep_id, list(wanted))
    _join(session, groups["in_progress"])
    for trial_id in linked.intersection(groups["reused"]):
        events.owe(session, "trial", [row.sweep_id], trial_id, {"state": TrialState.DONE.value})
    _recount_after(session, row.sweep_id, groups["again"])
    return _submitted(session, row.sweep_id, groups, list(wanted))


def _sorted_out(wanted: dict[str, TrialSpec], states: dict[str, str], rerun: bool) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {"new": [], "again": [], "reused": [], "in_progress": []}
    for trial_id in wanted:
        state = states.get(trial_id)
        if state is None:
            groups["new"].append(trial_id)
        elif state == TrialState.DONE and not rerun:
            groups["reused"].append(trial_id)
        else:
            groups["in_progress" if TrialState(state) in rules.OPEN else "again"].append(trial_id)
    return groups


def _states(session: Session, trial_ids: Sequence[str]) -> dict[str, str]:
    query = select(TrialRow.trial_id, TrialRow.state)
    found: dict[str, str] = {}
    for some in chunks(trial_ids):
        found.update(session.execute(query.where(TrialRow.trial_id.in_(some))).all())
    return found


def _queued(spec: TrialSpec) -> dict[str, Any]:
    return {
        "state": TrialState.WAITING.value,
        "device": spec.device,
        "repeat": spec.repeat,
        "reference_key": spec.labels.get("reference_key"),
        "baseline_key": spec.labels.get("baseline_key"),
        "strategy": spec.labels.get("strategy"),
        "streamed": streamed(spec.labels),
        "labels": spec.labels,
        "config": spec.config,
        "job": spec.job,
    }


def _requeue(session: Session, spec: TrialSpec) -> None:
    """What a done trial had measured stays, as an event and until it is measured anew."""
    if (before := one(session, spec.trial_id)).result is not None:
        events.append(session, [rules.rerun_event(before)])
    fresh = {
        "derived": True,
        "charged_failures": 0,
        "earlier_attempts": TrialRow.attempts,
        "failure_kind": None,
        "failure_message": None,
        "last_device": None,
        "attempt_id": None,
        "attempt_wall_s": None,
        "reason": "",
    }
    session.execute(update(TrialRow).where(TrialRow.trial_id == spec.trial_id).values(**_queued(spec), **fresh))


def _link(session: Session, sweep_id: str, trial_ids: Sequence[str]) -> set[str]:
    """Returns the ids that were not linked before."""
    known = set(session.scalars(select(LinkRow.trial_id).where(LinkRow.sweep_id == sweep_id)))
    new = [t for t in trial_ids if t not in known]
    if new:
        values = [{"sweep_id": sweep_id, "trial_id": t, "position": len(known) + i} for i, t in enumerate(new)]
        session.execute(insert(LinkRow), values)
    return set(new)


def _join(session: Session, trial_ids: Sequence[str]) -> None:
    """Somebody wants these: attempts on them that a cancelled sweep had stopped go on, or are not held against them."""
    for some in chunks(trial_ids):
        wanted = AttemptRow.trial_id.in_(some) & AttemptRow.cancel_requested
        session.execute(update(AttemptRow).where(wanted, AttemptRow.state == "running").values(cancel_requested=False))


def _recount_after(session: Session, sweep_id: str, again: Sequence[str]) -> None:
    sweeps.recount(session, select(LinkRow.sweep_id).where(LinkRow.sweep_id == sweep_id).distinct())
    for some in chunks(again):
        sweeps.recount(session, select(LinkRow.sweep_id).where(LinkRow.trial_id.in_(some)).distinct())


def _submitted(session: Session, sweep_id: str, groups: dict[str, list[str]], order: Sequence[str]) -> Submission:
    row = sweeps.find(session, sweep_id)
    fresh = {*groups["new"], *groups["again"]}
    queued = tuple(t for t in order if t in fresh)
    reused, joined = tuple(groups["reused"]), tuple(groups["in_progress"])
    data = {"name": row.name, "queued": len(queued), "reused": len(reused), "in_progress": len(joined)}
    event_id = events.append_one(session, FarmEvent("sweep_submitted", sweep_id=sweep_id, data=data))
    events.owe(session, "sweep", [sweep_id], None, {"event": "submitted"})
    sweeps.finish_if_empty(session, row)
    return Submission(rows.sweep(row), queued, reused, joined, event_id)


def of_sweep(session: Session, sweep_id: str) -> list[Trial]:
    query = whole().join(LinkRow, LinkRow.trial_id == TrialRow.trial_id)
    found = session.execute(query.where(LinkRow.sweep_id == sweep_id).order_by(LinkRow.position))
    return [with_result(t, r) for t, r in found]


def one(session: Session, trial_id: str) -> Trial:
    found = session.execute(whole().where(TrialRow.trial_id == trial_id)).first()
    if found is None:
        raise rules.unknown("trial", trial_id, [])
    return with_result(*found)


def with_result(row: TrialRow, result: ResultRow | None) -> Trial:
    """A trial that runs again has none, whatever is kept of before."""
    return rows.trial(row, row.job, result.result if result and row.state == TrialState.DONE else None)


def whole() -> Select[TrialRow, ResultRow | None]:
    """What `with_result` takes."""
    joined = select(TrialRow, ResultRow).outerjoin(ResultRow, ResultRow.trial_id == TrialRow.trial_id)
    return cast("Select[TrialRow, ResultRow | None]", joined.options(undefer(TrialRow.job)))


def wanted_packs(session: Session) -> set[str]:
    names = (TrialRow.job[name].as_string() for name in ("target_pack", "draft_pack"))
    going = TrialRow.state.in_([TrialState.WAITING, TrialState.RUNNING])
    found = session.execute(select(*names).where(going).distinct())
    return {pack for pair in found for pack in pair if pack}


def stale_reasons(session: Session, reasons: dict[str, str]) -> dict[str, str]:
    """Those that differ from what is stored."""
    stored: dict[str, str] = {}
    query = select(TrialRow.trial_id, TrialRow.reason).where(TrialRow.state == TrialState.WAITING)
    for some in chunks(list(reasons)):
        stored.update(session.execute(query.where(TrialRow.trial_id.in_(some))).all())
    return {t: reasons[t] for t, known in stored.items() if known != reasons[t]}


def set_reasons(session: Session, reasons: dict[str, str]) -> None:
    for trial_id, reason in reasons.items():
        still = (TrialRow.trial_id == trial_id) & (TrialRow.state == TrialState.WAITING)
        session.execute(update(TrialRow).where(still).values(reason=reason))


def rounds(session: Session, trial_id: str) -> str:
    return (
        session.scalars(select(func.coalesce(ResultRow.rounds, "")).where(ResultRow.trial_id == trial_id)).first() or ""
    )


def nodes(session: Session, trial_id: str) -> str:
    return session.scalars(select(ResultRow.nodes).where(ResultRow.trial_id == trial_id)).first() or ""


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
