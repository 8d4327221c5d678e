"""The soak's own judgement: it finds what is wrong, and only that."""

from __future__ import annotations

import time

import pytest

from device_agent.virtual.fault_list import FAULTS
from orchestrator.entities import AttemptOutcome, FailureKind, TrialState
from orchestrator.registry.memory import MemoryRegistry
from tests.fakes import farms
from tests.fakes import trials as fake
from tests.soak import verdict
from tests.soak.doctor import Quarantine
from tests.soak.ledger import EXPLAINS, POWER_OFF, SLACK_S, Injury, Ledger

PHONE = "oneplus12"


@pytest.fixture
def registry() -> MemoryRegistry:
    return farms.farm()


def hurt(fault: str, at: float | None = None, until: float | None = None, phone: str = PHONE) -> Ledger:
    ledger = Ledger()
    ledger.add(Injury(phone, fault, "", time.time() if at is None else at, until))
    return ledger


def ran(registry: MemoryRegistry, *failures: FailureKind, done: bool = True) -> list[str]:
    """A trial with these failed attempts, and then a result."""
    spec = fake.spec("t1", device=PHONE)
    farms.submit(registry, "soak", [spec])
    for kind in failures:
        attempt = registry.start_attempt("t1", PHONE, "test", 60)
        outcome = AttemptOutcome(attempt.attempt_id, failure_kind=kind, failure_message="gone")
        registry.finish_attempt(attempt, outcome, TrialState.WAITING, charged=False)
    if done:
        farms.finish(registry, spec, tags={"exactness": "exact 4/4, ties 0"})
    return [registry.trial("t1").state]


def judged(registry: MemoryRegistry, ledger: Ledger) -> list[str]:
    return verdict.trial_violations([registry.trial("t1")], registry, ledger)


def test_every_fault_has_its_explanations() -> None:
    assert set(EXPLAINS) == {*FAULTS, POWER_OFF}


def test_a_trial_that_is_done_after_explained_failures_is_right(registry: MemoryRegistry) -> None:
    ran(registry, FailureKind.UNREACHABLE)
    assert judged(registry, hurt("stall")) == []


def test_a_lost_trial_is_found(registry: MemoryRegistry) -> None:
    ran(registry, FailureKind.UNREACHABLE, done=False)
    assert judged(registry, hurt("stall")) == ["trial t1 on oneplus12: waiting, 0 results in 1 attempts"]


@pytest.mark.parametrize(
    "ledger",
    [
        hurt("hot"),
        hurt("stall", phone="pixel8"),
        hurt("stall", at=time.time() - 900, until=time.time() - 600),
        hurt("disk-full"),
        Ledger(),
    ],
    ids=["another fault", "another phone", "long over", "another kind", "nothing"],
)
def test_a_failure_that_nothing_explains_is_found(registry: MemoryRegistry, ledger: Ledger) -> None:
    ran(registry, FailureKind.UNREACHABLE)
    (found,) = judged(registry, ledger)
    assert found.startswith("trial t1 on oneplus12: unreachable (gone), after ")


def test_a_diverged_text_is_found(registry: MemoryRegistry) -> None:
    spec = fake.spec("t1", device=PHONE)
    farms.submit(registry, "soak", [spec])
    farms.finish(registry, spec, tags={"exactness": "DIVERGED@3"})
    assert judged(registry, Ledger()) == ["trial t1 on oneplus12: DIVERGED@3"]


@pytest.mark.parametrize(
    ("reason", "fault", "right"),
    [
        ("3 failures in a row: disk_full (the last: full)", "disk-full", True),
        ("3 failures in a row: unreachable, disk_full (the last: full)", "disk-full", False),
        ("3 failures in a row: unreachable (the last: gone)", "hot", False),
        ("", "stall", False),
    ],
)
def test_a_quarantine_is_true_or_found(registry: MemoryRegistry, reason: str, fault: str, right: bool) -> None:
    seen = [Quarantine(PHONE, reason, time.time())]
    assert (verdict.untrue_quarantines(seen, registry, hurt(fault)) == []) == right


def test_a_fault_explains_for_a_while_after_it_was_mended() -> None:
    ledger = hurt("stall", at=100.0)
    ledger.all()[0].until = 110.0
    assert ledger.explains(PHONE, "unreachable", 110 + SLACK_S - 1, 200) == ["stall"]
    assert ledger.explains(PHONE, "unreachable", 110 + SLACK_S + 1, 200) == []
    assert ledger.explains(PHONE, "unreachable", 50, 98) == []
