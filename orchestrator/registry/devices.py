"""Phones in the database, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from orchestrator.entities import Device, DeviceState
from orchestrator.registry import events, rows, rules
from orchestrator.registry.database import DbNow
from orchestrator.registry.models import CostRow, DeviceRow, LeaseRow

_LEASES = select(LeaseRow.device, LeaseRow.attempt_id, LeaseRow.expired().label("expired"))


def put(session: Session, device: Device) -> None:
    row = session.get(DeviceRow, device.name)
    before = (row.state, row.state_reason) if row else None
    if row is None:
        row = DeviceRow(name=device.name, trusted_since=0.0, state_since=0.0)
        session.add(row)
    for name in ("address", "kind", "host", "serial", "root", "facts"):
        setattr(row, name, getattr(device, name))
    row.tags = list(device.tags)
    _move(session, row, before, device.state, device.state_reason)
    session.flush()
    if session.get(LeaseRow, device.name) is None:
        session.add(LeaseRow(device=device.name))


def set_state(
    session: Session, name: str, state: DeviceState, reason: str, only_from: Collection[DeviceState] | None
) -> bool:
    row = stored(session, name)
    if not rules.may_move(DeviceState(row.state), only_from):
        return False
    _move(session, row, (row.state, row.state_reason), state, reason)
    return True


def _move(session: Session, row: DeviceRow, before: tuple[str, str] | None, state: DeviceState, reason: str) -> None:
    row.state, row.state_reason = rules.stored(state).value, reason
    if before is None or before[0] != row.state:
        row.state_since = session.scalars(select(DbNow())).one()
    if before != (row.state, reason):
        events.append(session, [rules.device_event(row.name, DeviceState(row.state), reason)])
    if before and before[0] == DeviceState.QUARANTINED and row.state != before[0]:
        row.trusted_since = session.scalars(select(DbNow())).one()


def stored(session: Session, name: str) -> DeviceRow:
    """As stored: BUSY never shows. Raises UnknownName."""
    if row := session.get(DeviceRow, name):
        return row
    names = session.scalars(select(DeviceRow.name))
    raise rules.unknown("phone", name, names, "Register it: lever phones register …")


def one(session: Session, name: str) -> Device:
    row = stored(session, name)
    lease = session.execute(_LEASES.where(LeaseRow.device == name)).first()
    return rows.device(row, rules.leased(lease.attempt_id, bool(lease.expired)) if lease else False)


def every(session: Session) -> list[Device]:
    busy = {row.device for row in session.execute(_LEASES) if rules.leased(row.attempt_id, bool(row.expired))}
    found = session.scalars(select(DeviceRow).order_by(DeviceRow.name))
    return [rows.device(row, row.name in busy) for row in found]


def put_costs(session: Session, device: str, key: str, costs: dict[str, Any]) -> None:
    stored(session, device)
    session.execute(delete(CostRow).where(CostRow.device == device, CostRow.key == key))
    session.add(CostRow(device=device, key=key, costs=costs))


def costs(session: Session, device: str, key: str) -> dict[str, Any] | None:
    row = session.get(CostRow, (device, key))
    return None if row is None else row.costs
