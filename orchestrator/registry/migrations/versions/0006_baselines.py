"""A trial's baselines found by an index, however many there are."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

LABEL = {"sqlite": "json_extract(labels, '$.{0}')", "postgresql": "labels ->> '{0}'"}


def upgrade() -> None:
    op.add_column("trials", sa.Column("baseline_key", sa.String(length=80), nullable=True))
    op.add_column("trials", sa.Column("streamed", sa.Boolean(), nullable=False, server_default=sa.true()))
    label = LABEL[op.get_bind().dialect.name]
    key, resident = label.format("baseline_key"), f"coalesce({label.format('storage')}, '') LIKE 'resident%'"
    op.execute(f"UPDATE trials SET baseline_key = {key}, streamed = NOT ({resident})")  # noqa: S608  # constants
    op.drop_index("ix_trials_reference_key_strategy", "trials")
    op.create_index(op.f("ix_trials_baseline_key_strategy"), "trials", ["baseline_key", "strategy"])
    plainness = ["reference_key", "strategy", "last_device", "state", "streamed", "repeat", "trial_id"]
    op.create_index("ix_trials_plainest", "trials", plainness)
