"""Measurements.

Revision: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from service.kit.database import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "measurements",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("quote_id", sa.String(36), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("observed_at", UtcDateTime(), nullable=False),
        sa.Column("source", sa.String(60), nullable=False),
        sa.Column("job_id", sa.String(200)),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(20), nullable=False),
        sa.Column("covers", sa.String(100)),
        sa.Column("steps_completed", sa.BigInteger()),
        sa.Column("started_at", UtcDateTime()),
        sa.Column("ended_at", UtcDateTime()),
        sa.Column("device_count", sa.BigInteger()),
        sa.Column("code", sa.String(80), nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.Column("method", sa.String(200), nullable=False),
        sa.Column("scope", sa.String(10), nullable=False),
        sa.Column("basis", sa.String(20)),
        sa.Column("excludes", sa.String(60), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("repeats", sa.Integer()),
        sa.Column("spread", sa.Float(53)),
        sa.Column("corrects_id", sa.String(36)),
        sa.Column("estimated", sa.Float(53)),
        sa.Column("low", sa.Float(53)),
        sa.Column("high", sa.Float(53)),
        sa.Column("uncalibrated", sa.Float(53)),
        sa.Column("interval_coverage", sa.Float(53)),
        sa.Column("observed_value", sa.Float(53)),
        sa.Column("log_ratio", sa.Float(53)),
        sa.Column("censored", sa.Boolean(), nullable=False),
        sa.Column("drift", sa.Float(53)),
        sa.Column("replaces_id", sa.String(36)),
        sa.Column("device", sa.String(100)),
        sa.Column("model", sa.String(200)),
        sa.Column("model_family", sa.String(100)),
        sa.Column("training_method", sa.String(20), nullable=False),
        sa.Column("stack", sa.String(40)),
        sa.Column("engine_version", sa.String(40), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_measurements"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_measurements_team_id_teams"),
        sa.ForeignKeyConstraint(["quote_id"], ["quotes.id"], name="fk_measurements_quote_id_quotes"),
        sa.ForeignKeyConstraint(["corrects_id"], ["measurements.id"], name="fk_measurements_corrects_id_measurements"),
        sa.ForeignKeyConstraint(["replaces_id"], ["measurements.id"], name="fk_measurements_replaces_id_measurements"),
        sa.UniqueConstraint("corrects_id", name="uq_measurements_corrects_id"),
        sa.UniqueConstraint("replaces_id", name="uq_measurements_replaces_id"),
        sa.CheckConstraint("outcome IN ('completed', 'failed', 'cancelled', 'preempted', 'timeout')", name=op.f("ck_measurements_outcome")),
    )
    # A value once; its corrections are told apart by what they correct.
    op.create_index(
        "uq_measurements_key",
        "measurements",
        ["quote_id", "source", "attempt", "code", "method", "scope"],
        unique=True,
        sqlite_where=sa.text("corrects_id IS NULL"),
        postgresql_where=sa.text("corrects_id IS NULL"),
    )
    op.create_index("ix_measurements_quote_id_created_at", "measurements", ["quote_id", "created_at", "id"])
    op.create_index("ix_measurements_team_id_code_observed_at", "measurements", ["team_id", "code", "observed_at"])


def downgrade() -> None:
    """Undo."""
    op.drop_table("measurements")
