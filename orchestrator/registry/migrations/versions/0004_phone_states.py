"""Since when a phone is in its state, and its states of before found quickly."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("devices", sa.Column("state_since", sa.Double(), nullable=False, server_default="0"))
    states = sa.text("kind = 'device_state'")
    op.create_index(
        op.f("ix_events_device_event_id"),
        "events",
        ["device", "event_id"],
        unique=False,
        sqlite_where=states,
        postgresql_where=states,
    )
