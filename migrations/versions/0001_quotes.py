"""Teams, keys, quotes and idempotency keys.

Revision: 0001
Revises: nothing
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from service.kit.database import UtcDateTime
from service.kit.security import DEFAULT_TEAM, DEFAULT_TEAM_ID

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    teams = op.create_table(
        "teams",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_teams"),
        sa.UniqueConstraint("name", name="uq_teams_name"),
    )
    # Where no key is asked for, everything belongs to this team.
    op.bulk_insert(teams, [{"id": DEFAULT_TEAM_ID, "name": DEFAULT_TEAM, "created_at": datetime(2026, 1, 1, tzinfo=UTC)}])

    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("lookup", sa.String(16), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("revoked_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("lookup", name="uq_api_keys_lookup"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_api_keys_team_id_teams"),
    )
    op.create_index("ix_api_keys_team_id", "api_keys", ["team_id"])

    op.create_table(
        "quotes",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("supersedes_id", sa.String(36)),
        sa.Column("engine_version", sa.String(40), nullable=False),
        sa.Column("calibration_version", sa.String(100)),
        sa.Column("name", sa.String(200)),
        sa.Column("project", sa.String(200)),
        sa.Column("model", sa.String(200)),
        sa.Column("model_family", sa.String(100)),
        sa.Column("device", sa.String(100)),
        sa.Column("device_count", sa.BigInteger()),
        sa.Column("method", sa.String(20), nullable=False),
        sa.Column("stack", sa.String(40)),
        sa.Column("external_system", sa.String(200)),
        sa.Column("external_id", sa.String(200)),
        sa.Column("received", sa.Text(), nullable=False),
        sa.Column("pilot", sa.Text()),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_quotes"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_quotes_team_id_teams"),
        sa.ForeignKeyConstraint(["supersedes_id"], ["quotes.id"], name="fk_quotes_supersedes_id_quotes"),
    )
    op.create_index("ix_quotes_team_id_created_at", "quotes", ["team_id", "created_at", "id"])
    op.create_index("ix_quotes_team_id_model_created_at", "quotes", ["team_id", "model", "created_at", "id"])
    op.create_index("ix_quotes_team_id_project_created_at", "quotes", ["team_id", "project", "created_at", "id"])
    op.create_index("ix_quotes_team_id_external", "quotes", ["team_id", "external_system", "external_id", "created_at", "id"])
    op.create_index("ix_quotes_supersedes_id", "quotes", ["supersedes_id"])

    op.create_table(
        "quote_labels",
        sa.Column("quote_id", sa.String(36), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("value", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("quote_id", "key", name="pk_quote_labels"),
        sa.ForeignKeyConstraint(["quote_id"], ["quotes.id"], name="fk_quote_labels_quote_id_quotes", ondelete="CASCADE"),
    )
    op.create_index("ix_quote_labels_key_value_quote_id", "quote_labels", ["key", "value", "quote_id"])

    op.create_table(
        "quote_items",
        sa.Column("quote_id", sa.String(36), nullable=False),
        sa.Column("code", sa.String(80), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("expected", sa.Float(53), nullable=False),
        sa.Column("low", sa.Float(53)),
        sa.Column("high", sa.Float(53)),
        sa.Column("basis", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("quote_id", "code", name="pk_quote_items"),
        sa.ForeignKeyConstraint(["quote_id"], ["quotes.id"], name="fk_quote_items_quote_id_quotes", ondelete="CASCADE"),
    )

    op.create_table(
        "quote_events",
        sa.Column("quote_id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("quote_id", "kind", name="pk_quote_events"),
        sa.ForeignKeyConstraint(["quote_id"], ["quotes.id"], name="fk_quote_events_quote_id_quotes", ondelete="CASCADE"),
        sa.CheckConstraint("kind IN ('superseded', 'measured')", name=op.f("ck_quote_events_kind")),
    )

    op.create_table(
        "idempotency_keys",
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("path", sa.String(300), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("holder", sa.String(36), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("headers", sa.Text()),
        sa.Column("body", sa.Text()),
        sa.PrimaryKeyConstraint("team_id", "path", "key", name="pk_idempotency_keys"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_idempotency_keys_team_id_teams"),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def downgrade() -> None:
    """Undo."""
    for table in ("idempotency_keys", "quote_events", "quote_items", "quote_labels", "quotes", "api_keys", "teams"):
        op.drop_table(table)
