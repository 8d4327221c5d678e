"""What the registry promises about phones held for something else and their costs, held against every backend."""

from __future__ import annotations

import pytest

from orchestrator.entities import (
    DeviceState,
)
from orchestrator.errors import ClaimLost, UnknownName
from orchestrator.registry.contract import Registry
from tests.fakes import farm
from tests.fakes.farm import PHONE


def test_a_reserved_phone_is_busy_and_takes_no_trial(registry: Registry) -> None:
    farm.submit(registry, "t1")
    held = registry.reserve(PHONE, "me", 60)
    assert registry.device(PHONE).state is DeviceState.BUSY
    assert [d.state for d in registry.devices() if d.name == PHONE] == [DeviceState.BUSY]
    assert registry.running() == []
    with pytest.raises(ClaimLost, match="leased"):
        farm.run(registry, "t1")
    with pytest.raises(ClaimLost, match="leased"):
        registry.reserve(PHONE, "other", 60)
    registry.release(held)
    assert registry.device(PHONE).state is DeviceState.READY
    farm.run(registry, "t1")


def test_a_busy_phone_cannot_be_reserved(registry: Registry) -> None:
    farm.submit(registry, "t1")
    farm.run(registry, "t1")
    with pytest.raises(ClaimLost, match="leased to attempt"):
        registry.reserve(PHONE, "me", 60)
    registry.set_device_state(PHONE, DeviceState.OFFLINE)
    with pytest.raises(ClaimLost, match="offline"):
        registry.reserve(PHONE, "me", 60)
    with pytest.raises(UnknownName, match="nobody"):
        registry.reserve("nobody", "me", 60)


def test_a_reservation_that_ran_out_binds_nobody(registry: Registry) -> None:
    farm.submit(registry, "t1")
    held = registry.reserve(PHONE, "me", -1)
    assert registry.device(PHONE).state is DeviceState.READY
    attempt = farm.run(registry, "t1")
    assert registry.renew([held], 60) == [held.attempt_id]
    registry.release(held)
    assert [a.attempt_id for a in registry.running()] == [attempt.attempt_id]


def test_a_reservation_is_renewed(registry: Registry) -> None:
    held = registry.reserve(PHONE, "me", -1)
    assert registry.renew([held], 60) == []
    assert registry.device(PHONE).state is DeviceState.BUSY


def test_costs_are_kept_by_phone_and_key(registry: Registry) -> None:
    assert registry.costs(PHONE, "k") is None
    registry.put_costs(PHONE, "k", {"threads": 1})
    registry.put_costs(PHONE, "k", {"threads": 2})
    assert registry.costs(PHONE, "k") == {"threads": 2}
    assert registry.costs(PHONE, "other") is None
    assert registry.costs("nobody", "k") is None
    with pytest.raises(UnknownName, match="nobody"):
        registry.put_costs("nobody", "k", {})
