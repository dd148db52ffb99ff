"""Answers are stored compressed, and of a quote's items only what is asked for.

Everything about an item is in the quote's document; `quote_items` repeated a hundred of them a quote, of which three were read.

Revision: 0005
Revises: 0004
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from service.kit.packing import pack, unpack

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ROWS_AT_A_TIME = 500
PACKED = {"quotes": ("received", "document"), "idempotency_keys": ("body",)}
KEYS = {"quotes": ("id",), "idempotency_keys": ("team_id", "path", "key")}
REQUIRED = {"received", "document"}
FIGURES = ("step_basis", "training_seconds", "wall_clock_seconds")


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("quotes") as batch:
        batch.add_column(sa.Column("step_basis", sa.String(20)))
        batch.add_column(sa.Column("training_seconds", sa.Float(53)))
        batch.add_column(sa.Column("wall_clock_seconds", sa.Float(53)))
    for column, value, code in (
        ("step_basis", "basis", "time.step"),
        ("training_seconds", "expected", "time.training"),
        ("wall_clock_seconds", "expected", "time.wall_clock"),
    ):
        op.execute(f"UPDATE quotes SET {column} = (SELECT i.{value} FROM quote_items i WHERE i.quote_id = quotes.id AND i.code = '{code}')")
    op.drop_table("quote_items")
    for table in PACKED:
        _convert(table, sa.Text(), sa.LargeBinary(), lambda text: pack(text.encode()))
    if op.get_bind().dialect.name == "postgresql":  # what is compressed need not be compressed again
        op.execute("ALTER TABLE quotes ALTER COLUMN document SET STORAGE EXTERNAL, ALTER COLUMN received SET STORAGE EXTERNAL")


def downgrade() -> None:
    """Undo."""
    for table in PACKED:
        _convert(table, sa.LargeBinary(), sa.Text(), lambda frame: unpack(bytes(frame)).decode())
    quote_items = op.create_table(
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
    quotes = sa.table("quotes", sa.column("id", sa.String), sa.column("document", sa.Text))
    for rows in _pages(quotes, ("id",), ("document",)):
        items = [item for row in rows for item in _items(row.id, json.loads(row.document))]
        if items:
            op.get_bind().execute(quote_items.insert(), items)
    with op.batch_alter_table("quotes") as batch:
        for column in FIGURES:
            batch.drop_column(column)


def _convert(table: str, before: Any, after: Any, change: Callable[[Any], Any]) -> None:
    """Columns of another type, each value changed on the way."""
    for column in PACKED[table]:
        op.add_column(table, sa.Column(f"{column}_changed", after))
        rows = sa.table(
            table,
            *(sa.column(key, sa.String) for key in KEYS[table]),
            sa.column(column, before),
            sa.column(f"{column}_changed", after),
        )
        where = [rows.c[key] == sa.bindparam(f"of_{key}") for key in KEYS[table]]
        update = rows.update().where(*where).values({f"{column}_changed": sa.bindparam("changed")})
        for page in _pages(rows, KEYS[table], (column,)):
            changes = [
                {**{f"of_{key}": getattr(row, key) for key in KEYS[table]}, "changed": change(getattr(row, column))}
                for row in page
                if getattr(row, column) is not None
            ]
            if changes:
                op.get_bind().execute(update, changes)
        with op.batch_alter_table(table) as batch:
            batch.drop_column(column)
            batch.alter_column(f"{column}_changed", new_column_name=column, existing_type=after, nullable=column not in REQUIRED)


def _pages(table: sa.TableClause, keys: Sequence[str], columns: Sequence[str]) -> Iterator[Sequence[Any]]:
    """All rows in the order of their keys, some at a time."""
    order = [table.c[key] for key in keys]
    query = sa.select(*order, *(table.c[column] for column in columns)).order_by(*order).limit(ROWS_AT_A_TIME)
    last: tuple[Any, ...] | None = None
    while True:
        after = query if last is None else query.where(sa.tuple_(*order) > sa.tuple_(*map(sa.literal, last)))
        rows = op.get_bind().execute(after).all()
        if not rows:
            return
        yield rows
        last = tuple(rows[-1][: len(keys)])


def _items(quote_id: str, document: Any) -> Iterator[dict[str, Any]]:
    """The rows that the code of revision 0004 stored."""
    for position, item in enumerate(document["items"]):
        if item["expected"] is not None:
            figures = {name: None if item[name] is None else float(item[name]) for name in ("expected", "low", "high")}
            yield {"quote_id": quote_id, "position": position, "code": item["code"], "basis": item["basis"], **figures}
