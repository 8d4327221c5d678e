"""What follows a failed attempt. Pure: (failure, history) → try again on the same phone, on another, or give up.

Failures of the phone, the cable or the host are never charged to the trial; failures of the trial are never charged to
the phone. A trial that fails in the same way on two phones, or twice on the only one that it may run on, has failed;
with a corrupt pack, twice anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.entities import FailureKind

PHONE_FAULTS = frozenset(
    {
        FailureKind.UNREACHABLE,
        FailureKind.UNAUTHORIZED,
        FailureKind.COMMAND_FAILED,
        FailureKind.PROVISIONING,
        FailureKind.AGENT_VANISHED,
        FailureKind.REBOOTED,
        FailureKind.ADBD_RESTARTED,
        FailureKind.AGENT_KILLED,
        FailureKind.DISK_FULL,
    }
)
NOBODYS_FAULTS = frozenset({FailureKind.HOST_LOST, FailureKind.CANCELLED})  # neither the phone's nor the trial's
POINTLESS = frozenset({FailureKind.BAD_SPEC, FailureKind.BUDGET_TOO_SMALL})  # follows from the configuration alone
TWICE_IS_ENOUGH = frozenset({FailureKind.PACK_CORRUPT})  # the second try had pushed what differed from this host's pack
QUARANTINE_AFTER = 3


class Next(StrEnum):
    SAME_PHONE = "same_phone"
    OTHER_PHONE = "other_phone"
    GIVE_UP = "give_up"
    STOP = "stop"  # cancelled: it does not wait again


@dataclass(frozen=True)
class Failure:
    kind: FailureKind
    device: str


@dataclass(frozen=True)
class Decision:
    next: Next
    charged: bool  # counts against the trial


def decide(history: Sequence[Failure], choices: int, max_attempts: int) -> Decision:
    """`history`: the trial's failures since it was last submitted, oldest first; the last one is to be decided on.
    `choices`: how many phones the trial may run on. `max_attempts`: charged failures that end it, whatever they are."""
    last = history[-1]
    if last.kind is FailureKind.CANCELLED:
        return Decision(Next.STOP, charged=False)
    elsewhere = Next.OTHER_PHONE if choices > 1 else Next.SAME_PHONE
    if not is_trials_fault(last.kind):
        return Decision(elsewhere, charged=False)
    charged = [f for f in history if is_trials_fault(f.kind)]
    alike = [f for f in charged if f.kind is last.kind]
    on_two_phones = len({f.device for f in alike}) > 1
    twice_is_enough = choices <= 1 or last.kind in TWICE_IS_ENOUGH
    twice = twice_is_enough and len(alike) > 1
    if last.kind in POINTLESS or on_two_phones or twice or len(charged) >= max_attempts:
        return Decision(Next.GIVE_UP, charged=True)
    return Decision(elsewhere, charged=True)


def is_trials_fault(kind: FailureKind) -> bool:
    return kind not in PHONE_FAULTS and kind not in NOBODYS_FAULTS


def quarantine_reason(recent: Sequence[FailureKind | None]) -> str | None:
    """Why the phone is quarantined, or None. `recent`: how its latest attempts ended, newest first, None for a result;
    any answer of the agent, even that the trial is at fault, shows that the phone works."""
    telling = [kind for kind in recent if kind not in NOBODYS_FAULTS][:QUARANTINE_AFTER]
    if len(telling) < QUARANTINE_AFTER or not all(kind in PHONE_FAULTS for kind in telling):
        return None
    kinds = dict.fromkeys(kind.value for kind in reversed(telling) if kind)
    return f"{QUARANTINE_AFTER} failures in a row: {', '.join(kinds)}"
