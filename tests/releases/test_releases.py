"""A database of each release comes up to date and answers what it was given."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import migration
from service.quotes import examples
from tests import postgres
from tests.conftest import settings_for

FOLDER = Path(__file__).parent
DUMPS = sorted(FOLDER.glob("*.sql"))


@pytest.fixture(params=DUMPS, ids=lambda path: path.stem)
def restored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[URL]:
    dump: Path = request.param
    if dump.stem.endswith(".sqlite"):
        path = tmp_path / "restored.db"
        connection = sqlite3.connect(path)
        connection.executescript(dump.read_text())
        connection.close()
        yield URL.create("sqlite", database=str(path))
        return
    server: postgres.Server = request.getfixturevalue("postgresql_server")
    url = server.create()
    engine = create_engine(url)
    with engine.begin() as connected:
        connected.connection.cursor().execute(dump.read_text())
    engine.dispose()
    yield url
    server.drop(url)


def test_the_migrations_of_this_code_have_a_database_on_each_engine() -> None:
    assert {f"{migration.head()}.{engine}" for engine in ("sqlite", "postgresql")} <= {dump.stem for dump in DUMPS}, (
        "run: python -m tests.releases"
    )


def test_it_comes_up_to_date_and_answers_what_was_stored(restored: URL) -> None:
    migration.upgrade(restored)
    with TestClient(create_app(settings_for(restored))) as client:
        assert client.get("/readyz").status_code == 200
        quotes = client.get("/v1/quotes").json()["items"]
        assert len(quotes) == 2  # one, and its revision to 4096 tokens a sequence
        stored = [client.get(f"/v1/quotes/{quote['id']}").json() for quote in quotes]
        assert [quote["spec"]["sequence_length"] for quote in stored] == [4096, examples.SPEC["sequence_length"]]
        measured = client.get(f"/v1/quotes/{quotes[1]['id']}/actuals").json()["items"]
        assert [(row["code"], row["value"]) for row in measured] == [("device_hours.run", 500000)]
        assert client.post("/v1/quotes", json=examples.SPEC).status_code == 201
