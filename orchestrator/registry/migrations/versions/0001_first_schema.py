"""First schema: sweeps, trials, attempts, phones, leases, events, outbox."""

import sqlalchemy as sa
from alembic import op

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "devices",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=80), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("serial", sa.Text(), nullable=False),
        sa.Column("root", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("trusted_since", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_devices")),
    )
    op.create_table(
        "events",
        sa.Column("event_id", SERIAL, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=80), nullable=False),
        sa.Column("sweep_id", sa.String(length=80), nullable=True),
        sa.Column("trial_id", sa.String(length=80), nullable=True),
        sa.Column("attempt_id", sa.String(length=80), nullable=True),
        sa.Column("device", sa.String(length=200), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "outbox",
        sa.Column("item_id", SERIAL, nullable=False),
        sa.Column("kind", sa.String(length=80), nullable=False),
        sa.Column("sweep_id", sa.String(length=80), nullable=False),
        sa.Column("trial_id", sa.String(length=80), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("item_id", name=op.f("pk_outbox")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "sweeps",
        sa.Column("seq", SERIAL, nullable=False),
        sa.Column("sweep_id", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("cancelled", sa.Boolean(), nullable=False),
        sa.Column("open_trials", sa.Integer(), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_sweeps")),
        sa.UniqueConstraint("name", name=op.f("uq_sweeps_name")),
        sa.UniqueConstraint("sweep_id", name=op.f("uq_sweeps_sweep_id")),
    )
    op.create_table(
        "tracking_runs",
        sa.Column("sweep_id", sa.String(length=80), nullable=False),
        sa.Column("trial_id", sa.String(length=80), nullable=False),
        sa.Column("run_id", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("sweep_id", "trial_id", name=op.f("pk_tracking_runs")),
    )
    op.create_table(
        "trials",
        sa.Column("seq", SERIAL, nullable=False),
        sa.Column("trial_id", sa.String(length=80), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=True),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("reference_key", sa.String(length=80), nullable=True),
        sa.Column("strategy", sa.String(length=80), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("earlier_attempts", sa.Integer(), nullable=False),
        sa.Column("charged_failures", sa.Integer(), nullable=False),
        sa.Column("last_device", sa.String(length=200), nullable=True),
        sa.Column("attempt_id", sa.String(length=80), nullable=True),
        sa.Column("attempt_wall_s", sa.Double(), nullable=True),
        sa.Column("failure_kind", sa.String(length=80), nullable=True),
        sa.Column("failure_message", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("derived", sa.Boolean(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("job", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_trials")),
        sa.UniqueConstraint("trial_id", name=op.f("uq_trials_trial_id")),
    )
    op.create_index(op.f("ix_trials_derived_seq"), "trials", ["derived", "seq"], unique=False)
    op.create_index(op.f("ix_trials_reference_key_strategy"), "trials", ["reference_key", "strategy"], unique=False)
    op.create_index(op.f("ix_trials_state_queue_seq"), "trials", ["state", "queue", "seq"], unique=False)
    op.create_index(op.f("ix_trials_state_seq"), "trials", ["state", "seq"], unique=False)

    op.create_table(
        "attempts",
        sa.Column("attempt_id", sa.String(length=80), nullable=False),
        sa.Column("trial_id", sa.String(length=80), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("failure_kind", sa.String(length=80), nullable=True),
        sa.Column("failure_message", sa.Text(), nullable=True),
        sa.Column("log_tail", sa.Text(), nullable=False),
        sa.Column("charged", sa.Boolean(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("wall_s", sa.Double(), nullable=False),
        sa.Column("connection_losses", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["device"], ["devices.name"], name=op.f("fk_attempts_device_devices")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.trial_id"], name=op.f("fk_attempts_trial_id_trials")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("trial_id", "number", name=op.f("uq_attempts_trial_id_number")),
    )
    op.create_index(op.f("ix_attempts_device_ended_at"), "attempts", ["device", "ended_at"], unique=False)
    op.create_index(op.f("ix_attempts_state"), "attempts", ["state"], unique=False)

    op.create_table(
        "leases",
        sa.Column("device", sa.String(length=200), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.String(length=80), nullable=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["device"], ["devices.name"], name=op.f("fk_leases_device_devices")),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_leases")),
        sa.UniqueConstraint("attempt_id", name=op.f("uq_leases_attempt_id")),
    )
    op.create_table(
        "results",
        sa.Column("trial_id", sa.String(length=80), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("rounds", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.trial_id"], name=op.f("fk_results_trial_id_trials")),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_results")),
    )
    op.create_table(
        "sweep_trials",
        sa.Column("sweep_id", sa.String(length=80), nullable=False),
        sa.Column("trial_id", sa.String(length=80), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.sweep_id"], name=op.f("fk_sweep_trials_sweep_id_sweeps")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.trial_id"], name=op.f("fk_sweep_trials_trial_id_trials")),
        sa.PrimaryKeyConstraint("sweep_id", "trial_id", name=op.f("pk_sweep_trials")),
    )
    op.create_index(op.f("ix_sweep_trials_trial_id"), "sweep_trials", ["trial_id"], unique=False)
