"""Sweeps end themselves after so many failures; leases survive a clock put back and know who wants a host alone; events
cannot be changed."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

SQLITE = "CREATE TRIGGER events_keep_{0} BEFORE {0} ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
POSTGRESQL = (
    "CREATE FUNCTION lever_events_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$",
    "CREATE TRIGGER events_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON events "
    "FOR EACH STATEMENT EXECUTE FUNCTION lever_events_append_only()",
)


def upgrade() -> None:
    with op.batch_alter_table("leases") as leases:
        leases.add_column(sa.Column("ttl_s", sa.Double(), nullable=False, server_default="0"))
        leases.add_column(sa.Column("exclusive", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute("UPDATE leases SET ttl_s = 3600")  # longer than any that an older version gave
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.add_column(sa.Column("failed_trials", sa.Integer(), nullable=False, server_default="0"))
        sweeps.add_column(sa.Column("max_failures", sa.Integer(), nullable=True))
    op.execute(
        "UPDATE sweeps SET failed_trials = (SELECT count(*) FROM sweep_trials JOIN trials "
        "ON trials.trial_id = sweep_trials.trial_id WHERE sweep_trials.sweep_id = sweeps.sweep_id AND state = 'failed')"
    )
    sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in [SQLITE.format(what) for what in ("UPDATE", "DELETE")] if sqlite else POSTGRESQL:
        op.execute(statement)
