"""Teams say whether they share what they learn.

Revision: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("teams") as batch:
        batch.add_column(sa.Column("shares_learning", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Undo."""
    with op.batch_alter_table("teams") as batch:
        batch.drop_column("shares_learning")
