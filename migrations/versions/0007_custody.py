"""Keys expire, are rotated and remember their last use; who did what is kept.

Revision: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from service.kit.database import UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("api_keys") as batch:
        batch.add_column(sa.Column("expires_at", UtcDateTime()))
        batch.add_column(sa.Column("last_used_at", UtcDateTime()))
        batch.add_column(sa.Column("replaces_id", sa.String(36)))
        batch.create_foreign_key("fk_api_keys_replaces_id_api_keys", "api_keys", ["replaces_id"], ["id"])

    op.create_table(
        "audit_events",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("via", sa.String(20), nullable=False),
        sa.Column("key_id", sa.String(36)),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("subject", sa.String(100), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_audit_events_team_id_teams"),
    )
    op.create_index("ix_audit_events_team_id_created_at", "audit_events", ["team_id", "created_at", "id"])
    op.create_index("ix_audit_events_team_id_subject", "audit_events", ["team_id", "subject"])
    # What happened stays as it was written; a team's rows go with the team alone (`delete-team`).
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER audit_events_stay BEFORE UPDATE ON audit_events "
            "BEGIN SELECT RAISE(ABORT, 'what happened is not rewritten'); END"
        )
    else:
        op.execute(
            "CREATE FUNCTION audit_events_stay() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'what happened is not rewritten' USING ERRCODE = 'integrity_constraint_violation'; END $$"
        )
        op.execute("CREATE TRIGGER audit_events_stay BEFORE UPDATE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_stay()")

    # A team's rows in the order they were made (export), and what refers to a quote that goes (deletion).
    op.create_index("ix_measurements_team_id_created_at", "measurements", ["team_id", "created_at", "id"])
    op.create_index("ix_ledger_entries_team_id_created_at", "ledger_entries", ["team_id", "created_at", "id"])
    op.create_index("ix_ledger_entries_quote_id", "ledger_entries", ["quote_id"])


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_ledger_entries_quote_id", "ledger_entries")
    op.drop_index("ix_ledger_entries_team_id_created_at", "ledger_entries")
    op.drop_index("ix_measurements_team_id_created_at", "measurements")
    op.drop_table("audit_events")
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION audit_events_stay()")
    with op.batch_alter_table("api_keys") as batch:
        batch.drop_constraint("fk_api_keys_replaces_id_api_keys", type_="foreignkey")
        batch.drop_column("replaces_id")
        batch.drop_column("last_used_at")
        batch.drop_column("expires_at")
