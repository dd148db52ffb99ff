"""Projects and their ledgers.

Revision: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from service.kit.database import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "projects",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("rates", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_projects_team_id_teams"),
        sa.UniqueConstraint("team_id", "name", name="uq_projects_team_id_name"),
    )
    op.create_index("ix_projects_team_id_created_at", "projects", ["team_id", "created_at", "id"])

    op.create_table(
        "ledger_entries",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("stage", sa.String(20), nullable=False),
        sa.Column("outcome", sa.String(20), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("exploration", sa.Boolean()),
        sa.Column("name", sa.String(200)),
        sa.Column("option", sa.String(200)),
        sa.Column("device", sa.String(200)),
        sa.Column("device_hours", sa.Float(53)),
        sa.Column("cpu_hours", sa.Float(53)),
        sa.Column("human_hours", sa.Float(53)),
        sa.Column("tokens", sa.BigInteger()),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("effects", sa.Text(), nullable=False),
        sa.Column("quote_id", sa.String(36)),
        sa.Column("corrects_id", sa.String(36)),
        sa.Column("note", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_ledger_entries"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_ledger_entries_team_id_teams"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_ledger_entries_project_id_projects"),
        sa.ForeignKeyConstraint(["quote_id"], ["quotes.id"], name="fk_ledger_entries_quote_id_quotes"),
        sa.ForeignKeyConstraint(["corrects_id"], ["ledger_entries.id"], name="fk_ledger_entries_corrects_id_ledger_entries"),
        sa.UniqueConstraint("corrects_id", name="uq_ledger_entries_corrects_id"),
        sa.CheckConstraint(
            "stage IN ('data_preparation', 'generation', 'feedback', 'training', 'validation', 'rerun', 'human_review')",
            name=op.f("ck_ledger_entries_stage"),
        ),
        sa.CheckConstraint(
            "outcome IN ('completed', 'failed', 'cancelled', 'preempted', 'timeout')", name=op.f("ck_ledger_entries_outcome")
        ),
    )
    op.create_index("ix_ledger_entries_project_id_created_at", "ledger_entries", ["project_id", "created_at", "id"])


def downgrade() -> None:
    """Undo."""
    op.drop_table("ledger_entries")
    op.drop_table("projects")
