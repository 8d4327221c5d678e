"""Which done trials are compared with which, and what came of it, inside the caller's transaction."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Select, select, update
from sqlalchemy.orm import Session

from orchestrator.comparison import BASELINE
from orchestrator.entities import FarmEvent, Trial, TrialState
from orchestrator.errors import RegistryError
from orchestrator.registry import events, rules, sweeps
from orchestrator.registry.models import ResultRow, TrialRow
from orchestrator.registry.trials import one, whole, with_result

QUIETLY = {"synchronize_session": False}
PLAINNESS = (TrialRow.streamed, TrialRow.repeat, TrialRow.trial_id)  # the order of the index ix_trials_plainest


def baselines(session: Session, trial: Trial) -> list[Trial]:
    done = whole().where(*_done_baseline(trial.device))
    key = trial.spec.labels.get("baseline_key")
    own = _listed(session, done.where(TrialRow.baseline_key == key)) if key else []
    same_text = TrialRow.reference_key == trial.spec.labels.get("reference_key")
    plainest = _listed(session, done.where(same_text).order_by(*PLAINNESS).limit(1))
    return list({t.spec.trial_id: t for t in (*own, *plainest)}.values())


def compare_again(session: Session, baseline: Trial) -> int:
    """What has its baseline_key has its reference_key too."""
    labels, trial_id = baseline.spec.labels, baseline.spec.trial_id
    same_text = TrialRow.reference_key == labels.get("reference_key")
    done = select(TrialRow.trial_id).where(same_text, *_done_baseline(baseline.device))
    if session.scalars(done.order_by(*PLAINNESS).limit(1)).first() == trial_id:
        concerned = same_text
    elif key := labels.get("baseline_key"):
        concerned = TrialRow.baseline_key == key
    else:
        return 0
    compared = (TrialRow.state == TrialState.DONE) & TrialRow.derived & (TrialRow.last_device == baseline.device)
    marked = update(TrialRow).where(concerned, compared, TrialRow.trial_id != trial_id).values(derived=False)
    return len(session.execute(marked.returning(TrialRow.trial_id), execution_options=QUIETLY).all())


def _done_baseline(device: str | None) -> tuple[ColumnElement[bool], ...]:
    return TrialRow.strategy == BASELINE, TrialRow.last_device == device, TrialRow.state == TrialState.DONE


def underived(session: Session, limit: int) -> list[Trial]:
    return _listed(session, whole().where(TrialRow.derived.is_(False)).order_by(TrialRow.seq).limit(limit))


def _listed(session: Session, query: Select[TrialRow, ResultRow | None]) -> list[Trial]:
    return [with_result(t, r) for t, r in session.execute(query)]


def set_derived(session: Session, trial_id: str, metrics: dict[str, float], tags: dict[str, str]) -> None:
    trial, row = one(session, trial_id), session.get(ResultRow, trial_id)
    if row is None or trial.state is not TrialState.DONE:
        raise RegistryError(f"trial {trial_id} is {trial.state}: only a done trial has a result to add to")
    session.execute(update(TrialRow).where(TrialRow.trial_id == trial_id).values(derived=True))
    if (merged := rules.with_derived(row.result, metrics, tags)) is None:
        return
    row.result = merged
    events.append(session, [FarmEvent("trial_derived", trial_id=trial_id, data={"tags": tags})])
    owners = [s.sweep_id for s in sweeps.linking(session, trial_id)]
    events.owe(session, "trial", owners, trial_id, {"state": TrialState.DONE.value})
