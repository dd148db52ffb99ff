"""How migrations run: in one transaction, one migrator at a time, with foreign keys off where SQLite would cascade."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, event, text

from service.kit.database import make_engine
from service.kit.migration import LOCK_NUMBER, METADATA, refuse_loss, rows

LOCK_TIMEOUT_SECONDS = 30


def _run(connection: Connection) -> None:
    sqlite = connection.dialect.name == "sqlite"
    with connection.begin():
        if not sqlite:
            connection.execute(text("SET LOCAL statement_timeout = 0"))  # an index on a large table takes its time ...
            connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"))  # ... but nobody waits behind us for ever
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK_NUMBER})"))
        context.configure(
            connection=connection,
            target_metadata=METADATA,
            render_as_batch=sqlite,  # SQLite changes a table by copying it
            compare_type=True,
            transaction_per_migration=False,
        )
        may_lose = context.config.attributes.get("discard", True)
        before = {} if may_lose else rows(connection)
        context.run_migrations()
        if not may_lose:
            refuse_loss(before, rows(connection))
        if sqlite:
            orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            if orphans:
                raise RuntimeError(f"the migration would leave {len(orphans)} rows without the row they refer to")


def _foreign_keys_off(connection: object, _: object) -> None:
    """A batch migration drops and remakes a table; with foreign keys on, the drop deletes every row that refers to it.

    The pragma is without effect inside a transaction, so it is set when the connection is opened.
    """
    connection.execute("PRAGMA foreign_keys=OFF")  # type: ignore[attr-defined]


def run() -> None:
    """Run what alembic was asked for on the URL that the caller put into the configuration."""
    engine = make_engine(context.config.attributes["url"], connections=1, timeout_seconds=LOCK_TIMEOUT_SECONDS)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _foreign_keys_off)
    try:
        with engine.connect().execution_options(begin_immediate=True) as connection:
            _run(connection)
    finally:
        engine.dispose()


run()
