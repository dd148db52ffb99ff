"""Migrations: to run them, and to say whether the database is where this code expects it.

Alembic is imported where something is to be migrated: a service whose database is up to date starts without its 90 ms and 12 MB.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, MetaData, Table, func, inspect, select, text

from .database import make_engine, metadata
from .usage import NewerDatabase, UsageError

if TYPE_CHECKING:
    from alembic.config import Config

METADATA = metadata
LOCK_NUMBER = 0x52756E71  # any number, the same in every process: "Runq"

FOLDER = Path(__file__).resolve().parents[2] / "migrations"


def _config(url: URL | None = None, *, discard: bool = True) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["url"] = url
    config.attributes["discard"] = discard
    return config


def upgrade(url: URL, revision: str = "head") -> None:
    """Bring a database up to a revision."""
    from alembic import command
    from alembic.util import CommandError

    _refuse_newer(url)
    try:
        command.upgrade(_config(url), revision)
    except CommandError as error:  # a revision that there is not, or a database of a newer service
        raise UsageError(str(error)) from error


def downgrade(url: URL, revision: str, *, discard: bool = False) -> None:
    """Take a database back to a revision; `base` empties it. Where rows would be lost, only with `discard`."""
    from alembic import command
    from alembic.util import CommandError

    _refuse_newer(url)
    try:
        command.downgrade(_config(url, discard=discard), revision)
    except CommandError as error:
        raise UsageError(str(error)) from error


def rows(connection: Connection) -> dict[str, int]:
    """How many rows each table has that callers filled; teams are made by the history itself."""
    names = set(inspect(connection).get_table_names()) - {"alembic_version", "teams"}
    found = MetaData()  # of the database as it is, whatever the rooms of this code declare
    return {name: connection.execute(select(func.count()).select_from(Table(name, found))).scalar_one() for name in sorted(names)}


def refuse_loss(before: dict[str, int], after: dict[str, int]) -> None:
    """Raise where tables lost rows; the transaction is rolled back with it."""
    lost = [f"{count - after.get(name, 0)} of {name}" for name, count in before.items() if after.get(name, 0) < count]
    if lost:
        raise UsageError(f"rows would be lost ({', '.join(lost)}): make a backup and say --discard")


def _refuse_newer(url: URL) -> None:
    """An older service does not touch the database of a newer one: it would write what the newer one does not expect."""
    engine = make_engine(url, connections=1)
    try:
        with engine.connect() as connection:
            found = current(connection)
    finally:
        engine.dispose()
    if found is not None and found > head():
        raise NewerDatabase(f"the database is at migration {found}, this service knows {head()} at most: run the newer service")


def ensure_newest(url: URL) -> None:
    """Bring a database up to the revision that this code expects, if it is not there."""
    engine = make_engine(url, connections=1)
    try:
        with engine.connect() as connection:
            found = current(connection)
    finally:
        engine.dispose()
    if found != head():
        upgrade(url)


@cache
def head() -> str:
    """The revision that this code expects: they are numbered, and a file's name begins with its number."""
    return max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*_*.py"))


def current(connection: Connection) -> str | None:
    """The revision that a database is at; None for an empty one."""
    # Not by alembic's own context: it logs two lines each time, and readiness is asked for every few seconds.
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return revision
