"""Migrations: to run them, and to say whether the database is where this code expects it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, inspect, text

from .database import metadata
from .usage import UsageError

METADATA = metadata
LOCK_NUMBER = 0x52756E71  # any number, the same in every process: "Runq"

FOLDER = Path(__file__).resolve().parents[2] / "migrations"


def _config(url: URL | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["url"] = url
    return config


def upgrade(url: URL, revision: str = "head") -> None:
    """Bring a database up to a revision."""
    try:
        command.upgrade(_config(url), revision)
    except CommandError as error:  # a revision that there is not, or a database of a newer service
        raise UsageError(str(error)) from error


def downgrade(url: URL, revision: str) -> None:
    """Take a database back to a revision; `base` empties it."""
    command.downgrade(_config(url), revision)


@cache
def head() -> str:
    """The revision that this code expects."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def current(connection: Connection) -> str | None:
    """The revision that a database is at; None for an empty one."""
    # Not by alembic's own context: it logs two lines each time, and readiness is asked for every few seconds.
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return revision
