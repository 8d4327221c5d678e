"""The retry policy as a table."""

from __future__ import annotations

import pytest

from orchestrator.entities import FailureKind
from orchestrator.retry import NOBODYS_FAULTS, PHONE_FAULTS, Failure, Next, decide, is_trials_fault, quarantine_reason

K = FailureKind


def history(*failures: str) -> list[Failure]:
    """From `kind@phone`."""
    parts = (f.split("@") for f in failures)
    return [Failure(FailureKind(kind), phone) for kind, phone in parts]


@pytest.mark.parametrize(
    ("failures", "choices", "expected", "charged"),
    [
        # the phone's, the cable's, the host's: tried again, never charged, however often
        (["unreachable@a"], 1, Next.SAME_PHONE, False),
        (["unreachable@a"], 3, Next.OTHER_PHONE, False),
        (["agent_killed@a"] * 9, 1, Next.SAME_PHONE, False),
        (["agent_vanished@a", "agent_vanished@b", "agent_vanished@c"], 3, Next.OTHER_PHONE, False),
        (["host_lost@a"] * 5, 1, Next.SAME_PHONE, False),
        # the trial's own: the same twice on the only phone, or on two phones, ends it
        (["engine_error@a"], 1, Next.SAME_PHONE, True),
        (["engine_error@a", "engine_error@a"], 1, Next.GIVE_UP, True),
        (["engine_error@a"], 2, Next.OTHER_PHONE, True),
        (["engine_error@a", "engine_error@b"], 2, Next.GIVE_UP, True),
        (["engine_error@a", "engine_error@a"], 2, Next.OTHER_PHONE, True),  # the other one was never free
        (["engine_error@a", "nan_logits@b"], 2, Next.OTHER_PHONE, True),
        (["engine_error@a", "nan_logits@a"], 1, Next.SAME_PHONE, True),
        # what the phone did wrong between does not count
        (["engine_error@a", "unreachable@a", "unreachable@a", "engine_error@a"], 1, Next.GIVE_UP, True),
        (["unreachable@a", "unreachable@a", "engine_error@a"], 1, Next.SAME_PHONE, True),
        (["engine_error@a", "unreachable@b"], 2, Next.OTHER_PHONE, False),
        # a corrupt pack is pushed once more, where it differs; then it is this host's
        (["pack_corrupt@a"], 1, Next.SAME_PHONE, True),
        (["pack_corrupt@a", "pack_corrupt@a"], 1, Next.GIVE_UP, True),
        (["pack_corrupt@a", "pack_corrupt@a"], 2, Next.GIVE_UP, True),
        (["pack_corrupt@a", "unreachable@a", "pack_corrupt@a"], 2, Next.GIVE_UP, True),
        # used up
        (["engine_error@a", "nan_logits@a", "deadline@a"], 1, Next.GIVE_UP, True),
        # pointless to repeat
        (["bad_spec@a"], 5, Next.GIVE_UP, True),
        (["budget_too_small@a"], 5, Next.GIVE_UP, True),
        # asked for
        (["cancelled@a"], 1, Next.STOP, False),
    ],
)
def test_decisions(failures: list[str], choices: int, expected: Next, charged: bool) -> None:
    decision = decide(history(*failures), choices, max_attempts=3)
    assert (decision.next, decision.charged) == (expected, charged)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_kind_is_somebodys(kind: FailureKind) -> None:
    assert is_trials_fault(kind) == (kind not in PHONE_FAULTS | NOBODYS_FAULTS)
    assert decide([Failure(kind, "a")], 1, max_attempts=1).charged == is_trials_fault(kind)


@pytest.mark.parametrize(
    ("recent", "quarantined"),
    [
        ([K.UNREACHABLE] * 3, True),
        ([K.UNREACHABLE, K.AGENT_VANISHED, K.PROVISIONING, None], True),
        ([K.UNREACHABLE] * 2, False),
        ([K.UNREACHABLE, K.UNREACHABLE, None, K.UNREACHABLE], False),
        ([None, K.UNREACHABLE, K.UNREACHABLE, K.UNREACHABLE], False),
        ([K.UNREACHABLE, K.UNREACHABLE, K.ENGINE_ERROR, K.UNREACHABLE], False),  # the agent answered
        ([K.UNREACHABLE, K.HOST_LOST, K.UNREACHABLE, K.CANCELLED, K.UNREACHABLE], True),
        ([K.HOST_LOST] * 5, False),
        ([], False),
    ],
)
def test_quarantine(recent: list[FailureKind | None], quarantined: bool) -> None:
    assert (quarantine_reason(recent) is not None) == quarantined


def test_the_reason_names_the_kinds_once_in_order() -> None:
    reason = quarantine_reason([K.UNREACHABLE, K.DISK_FULL, K.UNREACHABLE])
    assert reason == "3 failures in a row: unreachable, disk_full"
