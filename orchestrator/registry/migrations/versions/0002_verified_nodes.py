"""Verified nodes beside the rounds of a result."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("results", sa.Column("nodes", sa.Text(), nullable=True))
