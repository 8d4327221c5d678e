"""What passes cost on a phone."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "calibrations",
        sa.Column("device", sa.String(length=200), nullable=False),
        sa.Column("key", sa.String(length=80), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("costs", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["device"], ["devices.name"], name=op.f("fk_calibrations_device_devices")),
        sa.PrimaryKeyConstraint("device", "key", name=op.f("pk_calibrations")),
    )
