"""The migration history: it makes what the code expects, undoes it, and never loses a row on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, inspect, text
from starlette.testclient import TestClient

from service.__main__ import main
from service.app import create_app
from service.kit import migration, telemetry
from service.kit.database import make_engine, metadata
from service.quotes import examples
from tests.conftest import settings_for


@pytest.fixture
def plain(empty_database_url: URL) -> Iterator[Engine]:
    engine = make_engine(empty_database_url)
    yield engine
    engine.dispose()


def counts(connection: Connection) -> dict[str, int]:
    return {
        name: int(connection.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one())
        for name in inspect(connection).get_table_names()
        if name != "alembic_version"
    }


def populate(url: URL) -> None:
    """Rows in every table that the API of this code can fill."""
    with TestClient(create_app(settings_for(url))) as client:
        first = client.post("/v1/quotes", json=examples.SPEC, headers={"Idempotency-Key": "k"})
        assert first.status_code == 201, first.text
        path = first.headers["location"]
        assert client.post(path + "/revisions", json={"spec": {"sequence_length": 4096}}).status_code == 201
        measured = client.post(
            path + "/actuals",
            json={
                "attempt": 1,
                "outcome": "completed",
                "covers": ["training"],
                "source": "test",
                "measurements": [{"code": "device_hours.run", "value": 500000, "method": "scheduler accounting", "basis": "allocated"}],
            },
        )
        assert measured.status_code in (201, 404)  # 404 in a service without that room


def test_up_makes_exactly_the_tables_of_the_code(empty_database_url: URL, plain: Engine) -> None:
    migration.upgrade(empty_database_url)
    with plain.connect() as connection:
        assert migration.current(connection) == migration.head()
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []


def test_the_revision_that_is_expected_is_the_history_s_last() -> None:
    assert migration.head() == ScriptDirectory.from_config(migration._config()).get_current_head()


def test_a_service_whose_database_is_up_to_date_starts_without_alembic(tmp_path: Path) -> None:
    url = URL.create("sqlite", database=str(tmp_path / "quotes.db"))
    migration.upgrade(url)
    script = (
        "import sys; from service.app import create_app; from service.kit import migration; from service.settings import Settings;"
        "settings = Settings(); migration.ensure_newest(settings.url); create_app(settings); assert 'alembic' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(migration.FOLDER.parent), "RUNQUOTE_DATABASE_URL": url.render_as_string()}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=60)


def test_up_down_up_on_a_populated_database(empty_database_url: URL, plain: Engine) -> None:
    migration.upgrade(empty_database_url)
    populate(empty_database_url)
    revisions = [script.revision for script in ScriptDirectory.from_config(migration._config()).walk_revisions()]
    with plain.connect() as connection:
        before = counts(connection)
    assert before["quotes"] == 2
    for revision in [*revisions[1:], "base"]:
        migration.downgrade(empty_database_url, revision, discard=True)
        with plain.connect() as connection:
            left = counts(connection)
        kept = {name: rows for name, rows in left.items() if name in before}
        assert kept.items() <= before.items(), revision  # what is left of the tables has all its rows
    assert left == {}
    migration.upgrade(empty_database_url)
    with plain.connect() as connection:
        assert counts(connection).keys() == before.keys()
    populate(empty_database_url)
    migration.upgrade(empty_database_url)  # nothing to do is not an error


def test_changing_a_parent_table_keeps_the_rows_that_refer_to_it(
    empty_database_url: URL, plain: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite changes a table by copying and dropping it; with foreign keys on, the drop takes every child row along."""
    migration.upgrade(empty_database_url)
    populate(empty_database_url)
    with plain.connect() as connection:
        before = counts(connection)
    assert before["quotes"] and before["quote_labels"] and before["quote_events"]

    def widen(self: MigrationContext, **_: Any) -> None:
        with Operations(self).batch_alter_table("quotes", recreate="always" if self.dialect.name == "sqlite" else "auto") as batch:
            batch.alter_column("name", type_=__import__("sqlalchemy").String(400))

    monkeypatch.setattr(MigrationContext, "run_migrations", widen)
    migration.upgrade(empty_database_url)
    monkeypatch.undo()
    with plain.connect() as connection:
        assert counts(connection) == before


def test_quotes_stored_before_they_were_compressed_answer_the_same(empty_database_url: URL, plain: Engine) -> None:
    """Down to the tables that had a row for each item, and up again: byte by byte what was answered, on repetition too."""
    migration.upgrade(empty_database_url)
    populate(empty_database_url)
    figures = text("SELECT id, step_basis, training_seconds, wall_clock_seconds FROM quotes ORDER BY id")

    def answers() -> list[bytes]:
        with TestClient(create_app(settings_for(empty_database_url))) as client:
            listed = client.get("/v1/quotes").json()["items"]
            again = client.post("/v1/quotes", json=examples.SPEC, headers={"Idempotency-Key": "k"})
            assert again.headers["idempotency-replayed"] == "true"
            return [again.content, *(client.get(f"/v1/quotes/{quote['id']}").content for quote in listed)]

    before = answers()
    with plain.connect() as connection:
        known = connection.execute(figures).all()
    migration.downgrade(empty_database_url, "0004", discard=True)
    with plain.connect() as connection:
        stored = {row.id: json.loads(row.document) for row in connection.execute(text("SELECT id, document FROM quotes"))}
        rows = connection.execute(text("SELECT quote_id, code, expected, low, high, basis FROM quote_items ORDER BY position")).all()
    for answer in map(json.loads, before[1:]):
        assert stored[answer["id"]].items() <= answer.items()
        assert [tuple(row)[1:] for row in rows if row.quote_id == answer["id"]] == [
            tuple(item[name] for name in ("code", "expected", "low", "high", "basis"))
            for item in answer["items"]
            if item["expected"] is not None
        ]
    migration.upgrade(empty_database_url)
    assert answers() == before
    with plain.connect() as connection:
        assert connection.execute(figures).all() == known


def test_a_migration_that_would_leave_orphans_is_refused(empty_database_url: URL, plain: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    migration.upgrade(empty_database_url)
    populate(empty_database_url)

    def break_it(self: MigrationContext, **_: Any) -> None:
        Operations(self).execute("DELETE FROM teams")

    monkeypatch.setattr(MigrationContext, "run_migrations", break_it)
    with pytest.raises(Exception, match=r"refer|foreign key"):
        migration.upgrade(empty_database_url)
    monkeypatch.undo()
    with plain.connect() as connection:
        assert counts(connection)["quotes"] == 2


def test_a_downgrade_that_would_lose_rows_is_refused_and_changes_nothing(
    empty_database_url: URL, plain: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    migration.upgrade(empty_database_url)
    populate(empty_database_url)
    with plain.connect() as connection:
        before = counts(connection)
    monkeypatch.setattr(telemetry, "set_up_logging", lambda _: None)  # it is of the whole process
    monkeypatch.setenv("RUNQUOTE_DATABASE_URL", empty_database_url.render_as_string(hide_password=False))
    assert before["measurements"] == 1
    assert main(["downgrade", "0001"]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("runquote: ")]
    assert len(told) == 1 and "1 of measurements" in told[0] and "--discard" in told[0]
    with plain.connect() as connection:
        assert counts(connection) == before and migration.current(connection) == migration.head()
    assert main(["downgrade", "0001", "--discard"]) == 0
    with plain.connect() as connection:
        assert migration.current(connection) == "0001"


@pytest.mark.parametrize(
    "command", [["serve", "--port", "0"], ["migrate"], ["downgrade", "0001"], ["keys", "create", "--team", "t", "--scope", "admin"]]
)
def test_an_older_service_leaves_a_newer_database_alone_and_says_so(
    empty_database_url: URL, plain: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    migration.upgrade(empty_database_url)
    with plain.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    monkeypatch.setattr(telemetry, "set_up_logging", lambda _: None)  # it is of the whole process
    monkeypatch.setenv("RUNQUOTE_DATABASE_URL", empty_database_url.render_as_string(hide_password=False))
    assert main(command) == 3
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("runquote: ")]
    assert len(told) == 1 and "9999" in told[0]


def test_a_table_that_is_missing_is_503_on_both(empty_database_url: URL) -> None:
    with TestClient(create_app(settings_for(empty_database_url))) as client:
        answer = client.get("/v1/quotes")
        assert answer.status_code == 503 and answer.headers["retry-after"]


def test_two_migrators_at_once(empty_database_url: URL, plain: Engine) -> None:
    """Three processes, as replicas that start together are: Alembic keeps its context in a global, so threads would test that instead."""
    environment = {**os.environ, "RUNQUOTE_DATABASE_URL": empty_database_url.render_as_string(hide_password=False)}
    command = [sys.executable, "-m", "service", "migrate"]
    started = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in started]
    assert [code for _, code in ended] == [0, 0, 0], ended
    with plain.connect() as connection:
        assert migration.current(connection) == migration.head()


def test_every_constraint_has_a_name(empty_database_url: URL, plain: Engine) -> None:
    """SQLite's batch migrations cannot drop what has none."""
    migration.upgrade(empty_database_url)
    with plain.connect() as connection:
        inspector = inspect(connection)
        for table in inspector.get_table_names():
            if table == "alembic_version":
                continue
            constraints = [inspector.get_pk_constraint(table), *inspector.get_foreign_keys(table), *inspector.get_unique_constraints(table)]
            assert all(constraint["name"] for constraint in constraints), table


def test_readiness_says_which_migration_is_missing(empty_database_url: URL) -> None:
    with TestClient(create_app(settings_for(empty_database_url))) as client:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert migration.head() in answer.json()["detail"]
        migration.upgrade(empty_database_url)
        assert client.get("/readyz").status_code == 200
