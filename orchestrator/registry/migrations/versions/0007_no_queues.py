"""The controller keeps the queue in memory: the column that sorted it in the database is read by nobody."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.drop_index("ix_trials_state_queue_seq", "trials")
    op.execute("ALTER TABLE trials DROP COLUMN queue")
