"""What all backends decide alike: pure functions over entities, no storage."""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Collection, Iterable
from typing import Any

from orchestrator.entities import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    DeviceState,
    FarmEvent,
    Trial,
    TrialState,
)
from orchestrator.errors import UnknownName

RESERVED = "reserved-"  # attempt ids of reservations begin so
OPEN = (TrialState.WAITING, TrialState.RUNNING)


def new_attempt_id(trial_id: str, number: int) -> str:
    """Names the job folder on the phone; random, so that a farm begun anew never re-attaches to an old folder."""
    return f"{trial_id[:12]}-{number}-{secrets.token_hex(3)}"


def new_reservation(device: str) -> Attempt:
    return Attempt(f"{RESERVED}{secrets.token_hex(6)}", "", device, 0)


def is_reservation(attempt_id: str | None) -> bool:
    return attempt_id is not None and attempt_id.startswith(RESERVED)


def lease_expired(now: float, expires_at: float, ttl_s: float) -> bool:
    """Also one that would last longer than it was ever given: the clock was put back, and its holder may be gone."""
    return not now < expires_at <= now + 2 * max(ttl_s, 0.0)


def leased(attempt_id: str | None, expired: bool) -> bool:
    """Whether a phone is in use. An attempt's lease that expired is: its phone may still be at it, and another owner
    goes on. A reservation's is not: nobody will."""
    return attempt_id is not None and not (expired and is_reservation(attempt_id))


def stored(state: DeviceState) -> DeviceState:
    """BUSY follows from a lease and is never stored."""
    return DeviceState.READY if state is DeviceState.BUSY else state


def shown(state: DeviceState, leased: bool) -> DeviceState:
    return DeviceState.BUSY if leased and state is DeviceState.READY else state


def may_move(state: DeviceState, only_from: Collection[DeviceState] | None) -> bool:
    """Whether a phone in this stored state may get another; ready stands for busy too."""
    return only_from is None or state in {stored(allowed) for allowed in only_from}


def settled(wish: TrialState, cancel_requested: bool) -> TrialState:
    """A trial's state after an attempt: a cancelled one does not wait again, one wanted again is not cancelled."""
    if wish is TrialState.WAITING and cancel_requested:
        return TrialState.CANCELLED
    if wish is TrialState.CANCELLED and not cancel_requested:
        return TrialState.WAITING
    return wish


def attempt_state(outcome: AttemptOutcome) -> AttemptState:
    return AttemptState.DONE if outcome.result is not None else AttemptState.FAILED


def with_derived(result: dict[str, Any], metrics: dict[str, float], tags: dict[str, str]) -> dict[str, Any] | None:
    """The result with metrics and tags merged in; None when that changes nothing."""
    merged = {
        **result,
        "metrics": {**result.get("metrics", {}), **metrics},
        "tags": {**result.get("tags", {}), **tags},
    }
    return None if merged == result else merged


def finish_events(attempt: Attempt, outcome: AttemptOutcome, state: TrialState, charged: bool) -> list[FarmEvent]:
    data = {
        "state": attempt_state(outcome).value,
        "failure_kind": outcome.failure_kind.value if outcome.failure_kind else None,
        "failure_message": outcome.failure_message,
        "charged": charged,
        "attempt_wall_s": outcome.attempt_wall_s,
        "connection_losses": outcome.connection_losses,
        "trial_state": state.value,
    }
    kinds = ["attempt_finished"] + ([] if state in OPEN else [f"trial_{state.value}"])
    return [attempt_event(kind, attempt, data) for kind in kinds]


def attempt_event(kind: str, attempt: Attempt, data: dict[str, Any]) -> FarmEvent:
    return FarmEvent(kind, trial_id=attempt.trial_id, attempt_id=attempt.attempt_id, device=attempt.device, data=data)


def rerun_event(trial: Trial) -> FarmEvent:
    """What the trial had measured before it was asked for again."""
    measured = {key: (trial.result or {}).get(key, {}) for key in ("metrics", "tags")}
    return FarmEvent("trial_rerun", trial_id=trial.spec.trial_id, attempt_id=trial.attempt_id, data=measured)


def device_event(name: str, state: DeviceState, reason: str) -> FarmEvent:
    return FarmEvent("device_state", device=name, data={"state": state.value, "reason": reason})


def unknown(kind: str, name: str, names: Iterable[str], remedy: str = "") -> UnknownName:
    """`no such phone: 'x'` with close names, or with what there is when nothing is close and the list is short."""
    known = sorted(names)
    if close := difflib.get_close_matches(name, known, n=3):
        hint = f"Did you mean {' or '.join(close)}?"
    elif known and len(known) <= 20:
        hint = f"There is: {', '.join(known)}."
    else:
        hint = remedy
    return UnknownName(f"no such {kind}: {name!r}", hint)
