"""What the registry promises while a clock jumps, held against every backend."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from orchestrator.entities import (
    DeviceState,
    TrialState,
)
from orchestrator.errors import LeaseLost
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.registry.models import LeaseRow
from orchestrator.registry.sql import SqlRegistry
from tests.fakes import farm
from tests.fakes.farm import PHONE


def jump(registry: Registry, seconds: float) -> None:
    """What the registry's clock being set forward (back, if negative) does to the leases that it gave."""
    if isinstance(registry, MemoryRegistry):
        for lease in registry._leases.values():
            lease.until -= seconds
    else:
        assert isinstance(registry, SqlRegistry)
        with registry._db.write() as session:
            session.execute(update(LeaseRow).values(expires_at=LeaseRow.expires_at - seconds))


def test_a_clock_set_forward_costs_at_most_the_lease(registry: Registry) -> None:
    farm.submit(registry, "t1", "t2")
    mine = farm.run(registry, "t1")
    jump(registry, 86_400)
    assert registry.running()[0].lease_expired
    assert registry.renew([mine], 60) == []  # nobody took it: still ours
    assert not registry.running()[0].lease_expired
    jump(registry, 86_400)
    theirs = registry.adopt(mine.attempt_id, "other", 60)
    assert registry.renew([mine], 60) == [mine.attempt_id]
    with pytest.raises(LeaseLost):
        registry.finish_attempt(mine, farm.done(mine), TrialState.DONE, charged=False)
    registry.finish_attempt(theirs, farm.done(theirs), TrialState.DONE, charged=False)
    assert registry.trial("t1").attempts == 1


def test_a_clock_set_back_makes_no_lease_endless(registry: Registry) -> None:
    farm.submit(registry, "t1")
    lost = farm.run(registry, "t1")
    jump(registry, -30)
    assert not registry.running()[0].lease_expired
    jump(registry, -86_400)
    assert registry.running()[0].lease_expired
    assert registry.adopt(lost.attempt_id, "other", 60).owner == "other"
    registry.renew(registry.running(), 60)
    assert not registry.running()[0].lease_expired


def test_a_reservation_is_not_endless_either(registry: Registry) -> None:
    registry.reserve(PHONE, "me", 60)
    jump(registry, -86_400)
    assert registry.device(PHONE).state is DeviceState.READY
    registry.reserve(PHONE, "other", 60)
