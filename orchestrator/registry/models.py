"""Tables of the registry. Alembic's migrations own the schema; a test holds them equal to these models.

Times are unix seconds by the database's clock. Trials are queued by `seq`; their heavy columns come last or live in
tables of their own, so that reading the queue does not read them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    or_,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from orchestrator.registry.database import DbNow

NAMES = {  # batch migrations on SQLite find constraints by name
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
Serial = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only INTEGER keys by itself
Name = String(200)
Key = String(80)
STATES = text("kind = 'device_state'")


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {str: Text, float: Double, dict[str, Any]: JSON, list[str]: JSON}  # noqa: RUF012


class DeviceRow(Base):
    __tablename__ = "devices"
    name: Mapped[str] = mapped_column(Name, primary_key=True)
    address: Mapped[str]
    kind: Mapped[str] = mapped_column(Key)
    host: Mapped[str]
    serial: Mapped[str]
    root: Mapped[str]
    state: Mapped[str] = mapped_column(Key)
    state_reason: Mapped[str]
    facts: Mapped[dict[str, Any]]
    tags: Mapped[list[str]]
    trusted_since: Mapped[float] = mapped_column(default=0.0)  # when it last left quarantine
    state_since: Mapped[float] = mapped_column(default=0.0)  # 0: since before this was noted


class LeaseRow(Base):
    """One row a phone, free when `attempt_id` is null; `token` only grows. `ttl_s` tells a lease from one that a clock
    put back made endless."""

    __tablename__ = "leases"
    device: Mapped[str] = mapped_column(ForeignKey(DeviceRow.name), primary_key=True)
    token: Mapped[int] = mapped_column(default=0)
    attempt_id: Mapped[str | None] = mapped_column(Key, unique=True)
    owner: Mapped[str] = mapped_column(default="")
    expires_at: Mapped[float] = mapped_column(default=0.0)
    ttl_s: Mapped[float] = mapped_column(default=0.0)
    exclusive: Mapped[bool] = mapped_column(default=False)  # its holder wants the phone's host for itself

    @classmethod
    def expired(cls) -> ColumnElement[bool]:
        """rules.lease_expired in the database, by its clock; `ttl_s` is never negative there."""
        return or_(cls.expires_at <= DbNow(), cls.expires_at > DbNow() + 2 * cls.ttl_s)


class CostRow(Base):
    """What passes cost on a phone (protocol.CostCalibration), by cost_key."""

    __tablename__ = "calibrations"
    device: Mapped[str] = mapped_column(ForeignKey(DeviceRow.name), primary_key=True)
    key: Mapped[str] = mapped_column(Key, primary_key=True)
    made_at: Mapped[float] = mapped_column(default=DbNow())
    costs: Mapped[dict[str, Any]]


class SweepRow(Base):
    __tablename__ = "sweeps"
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    sweep_id: Mapped[str] = mapped_column(Key, unique=True)
    name: Mapped[str] = mapped_column(Name, unique=True)
    created_at: Mapped[float] = mapped_column(default=DbNow())
    cancelled: Mapped[bool] = mapped_column(default=False)
    open_trials: Mapped[int] = mapped_column(default=0)  # waiting or running: zero says finished without counting
    failed_trials: Mapped[int] = mapped_column(default=0)
    max_failures: Mapped[int | None]
    record: Mapped[dict[str, Any]]


class TrialRow(Base):
    __tablename__ = "trials"
    __table_args__ = (
        Index(None, "state", "seq"),
        Index(None, "derived", "seq"),
        Index(None, "baseline_key", "strategy"),
        Index(  # the best reference first
            "ix_trials_plainest",
            *("reference_key", "strategy", "last_device", "state", "streamed", "repeat", "trial_id"),
        ),
    )
    seq: Mapped[int] = mapped_column(Serial, primary_key=True)
    trial_id: Mapped[str] = mapped_column(Key, unique=True)
    state: Mapped[str] = mapped_column(Key)
    device: Mapped[str | None] = mapped_column(Name)  # bound to this phone; null: to none
    repeat: Mapped[int]
    reference_key: Mapped[str | None] = mapped_column(Key)
    baseline_key: Mapped[str | None] = mapped_column(Key)
    strategy: Mapped[str | None] = mapped_column(Key)
    streamed: Mapped[bool] = mapped_column(default=True)  # comparison.streamed
    attempts: Mapped[int] = mapped_column(default=0)
    earlier_attempts: Mapped[int] = mapped_column(default=0)
    charged_failures: Mapped[int] = mapped_column(default=0)
    last_device: Mapped[str | None] = mapped_column(Name)
    attempt_id: Mapped[str | None] = mapped_column(Key)
    attempt_wall_s: Mapped[float | None]
    failure_kind: Mapped[str | None] = mapped_column(Key)
    failure_message: Mapped[str | None]
    reason: Mapped[str] = mapped_column(default="")
    derived: Mapped[bool] = mapped_column(default=True)  # false: done, and nobody compared it yet
    labels: Mapped[dict[str, Any]]
    config: Mapped[dict[str, Any]]
    job: Mapped[dict[str, Any]] = mapped_column(deferred=True, deferred_raiseload=True)


class LinkRow(Base):
    __tablename__ = "sweep_trials"
    sweep_id: Mapped[str] = mapped_column(ForeignKey(SweepRow.sweep_id), primary_key=True)
    trial_id: Mapped[str] = mapped_column(ForeignKey(TrialRow.trial_id), primary_key=True, index=True)
    position: Mapped[int]


class ResultRow(Base):
    __tablename__ = "results"
    trial_id: Mapped[str] = mapped_column(ForeignKey(TrialRow.trial_id), primary_key=True)
    result: Mapped[dict[str, Any]]
    rounds: Mapped[str] = mapped_column(deferred=True, deferred_raiseload=True)
    nodes: Mapped[str | None] = mapped_column(deferred=True, deferred_raiseload=True)  # AttemptOutcome.nodes_packed


class AttemptRow(Base):
    __tablename__ = "attempts"
    __table_args__ = (UniqueConstraint("trial_id", "number"), Index(None, "device", "ended_at"))
    attempt_id: Mapped[str] = mapped_column(Key, primary_key=True)
    trial_id: Mapped[str] = mapped_column(ForeignKey(TrialRow.trial_id))
    number: Mapped[int]
    device: Mapped[str] = mapped_column(ForeignKey(DeviceRow.name))
    token: Mapped[int]
    owner: Mapped[str]
    state: Mapped[str] = mapped_column(Key, index=True)
    started_at: Mapped[float] = mapped_column(default=DbNow())
    ended_at: Mapped[float | None]
    failure_kind: Mapped[str | None] = mapped_column(Key)
    failure_message: Mapped[str | None]
    log_tail: Mapped[str] = mapped_column(default="")
    charged: Mapped[bool] = mapped_column(default=False)
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    wall_s: Mapped[float] = mapped_column(default=0.0)
    connection_losses: Mapped[int] = mapped_column(default=0)


class EventRow(Base):
    """Append-only: triggers refuse all else."""

    __tablename__ = "events"
    __table_args__ = (
        # only phones' states, which are few: progress events name a phone too, and must not pay for it
        Index(None, "device", "event_id", sqlite_where=STATES, postgresql_where=STATES),
        {"sqlite_autoincrement": True},  # an id is never used twice
    )
    event_id: Mapped[int] = mapped_column(Serial, primary_key=True)
    at: Mapped[float] = mapped_column(default=DbNow())
    kind: Mapped[str] = mapped_column(Key)
    sweep_id: Mapped[str | None] = mapped_column(Key)
    trial_id: Mapped[str | None] = mapped_column(Key)
    attempt_id: Mapped[str | None] = mapped_column(Key)
    device: Mapped[str | None] = mapped_column(Name)
    data: Mapped[dict[str, Any]]


class OutboxRow(Base):
    __tablename__ = "outbox"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012
    item_id: Mapped[int] = mapped_column(Serial, primary_key=True)
    kind: Mapped[str] = mapped_column(Key)
    sweep_id: Mapped[str] = mapped_column(Key)
    trial_id: Mapped[str | None] = mapped_column(Key)
    payload: Mapped[dict[str, Any]]


class TrackingRunRow(Base):
    __tablename__ = "tracking_runs"
    sweep_id: Mapped[str] = mapped_column(Key, primary_key=True)
    trial_id: Mapped[str] = mapped_column(Key, primary_key=True)  # empty: the sweep itself
    run_id: Mapped[str] = mapped_column(Key)
