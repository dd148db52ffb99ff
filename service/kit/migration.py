"""Migrations: to run them, and to say whether the database is where this code expects it.

Alembic is imported where something is to be migrated: a service whose database is up to date starts without its 90 ms and 12 MB.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, inspect, text

from .database import make_engine, metadata
from .usage import UsageError

if TYPE_CHECKING:
    from alembic.config import Config

METADATA = metadata
LOCK_NUMBER = 0x52756E71  # any number, the same in every process: "Runq"

FOLDER = Path(__file__).resolve().parents[2] / "migrations"


def _config(url: URL | None = None) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["url"] = url
    return config


def upgrade(url: URL, revision: str = "head") -> None:
    """Bring a database up to a revision."""
    from alembic import command
    from alembic.util import CommandError

    try:
        command.upgrade(_config(url), revision)
    except CommandError as error:  # a revision that there is not, or a database of a newer service
        raise UsageError(str(error)) from error


def downgrade(url: URL, revision: str) -> None:
    """Take a database back to a revision; `base` empties it."""
    from alembic import command

    command.downgrade(_config(url), revision)


def ensure_newest(url: URL) -> None:
    """Bring a database up to the revision that this code expects, if it is not there."""
    engine = make_engine(url, connections=1)
    try:
        with engine.connect() as connection:
            expected = current(connection) == head()
    finally:
        engine.dispose()
    if not expected:
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
