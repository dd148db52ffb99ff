"""Calibrations and daily histograms of errors.

Revision: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from service.kit.database import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "calibrations",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("window_days", sa.Integer()),
        sa.Column("half_life_runs", sa.Float(53), nullable=False),
        sa.Column("evidence", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_calibrations"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_calibrations_team_id_teams"),
        sa.UniqueConstraint("team_id", "number", name="uq_calibrations_team_id_number"),
    )
    op.create_index("ix_calibrations_team_id_created_at", "calibrations", ["team_id", "created_at", "id"])

    op.create_table(
        "accuracy_daily",
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("dimension", sa.String(210), nullable=False),
        sa.Column("code", sa.String(80), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("device", sa.String(100), nullable=False),
        sa.Column("model_family", sa.String(100), nullable=False),
        sa.Column("training_method", sa.String(20), nullable=False),
        sa.Column("stack", sa.String(40), nullable=False),
        sa.Column("engine_version", sa.String(40), nullable=False),
        sa.Column("label_value", sa.String(200), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("judged", sa.BigInteger(), nullable=False),
        sa.Column("within", sa.BigInteger(), nullable=False),
        sa.Column("losses", sa.BigInteger(), nullable=False),
        sa.Column("loss_micro", sa.BigInteger(), nullable=False),
        sa.Column("histogram", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "team_id",
            "dimension",
            "code",
            "day",
            "device",
            "model_family",
            "training_method",
            "stack",
            "engine_version",
            "label_value",
            name="pk_accuracy_daily",
        ),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_accuracy_daily_team_id_teams"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("accuracy_daily")
    op.drop_table("calibrations")
