"""The README's ways of making a backup: taken while the service writes, brought back into a new database, with nothing half done in it."""

from __future__ import annotations

import re
import shlex
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, text
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import migration
from service.kit.database import make_engine
from service.quotes import examples
from tests import postgres
from tests.conftest import settings_for
from tests.readme import README
from tests.team_data.filling import fill


def commands(engine: str) -> list[str]:
    """What the README says is to be typed."""
    found = re.search(rf"<!-- backup: {engine} -->\n```console\n(.*?)```", README.read_text(), re.DOTALL)
    assert found
    return [line.removeprefix("$ ") for line in found[1].strip().splitlines()]


class Writers:
    """Callers that quote and record as long as they are let; `acknowledged` holds what they were told is kept."""

    def __init__(self, client: TestClient) -> None:
        self._client, self._stop = client, threading.Event()
        self.acknowledged: list[str] = []
        self.failures: list[Any] = []
        self._threads = [threading.Thread(target=self._write) for _ in range(3)]

    def _write(self) -> None:
        while not self._stop.is_set():
            made = self._client.post("/v1/quotes", json={**examples.SPEC, "labels": {"a": "b"}})
            measured = {"source": "test", "outcome": "completed", "measurements": [{"code": "time.step", "value": 7.5, "method": "test"}]}
            told = self._client.post(f"/v1/quotes/{made.json().get('id')}/actuals", json={"attempt": 1, **measured})
            if made.status_code == told.status_code == 201:
                self.acknowledged.append(made.json()["id"])
            else:
                self.failures.append((made.text[:200], told.text[:200]))

    def wait_for(self, count: int) -> None:
        waiting = threading.Event()
        while len(self.acknowledged) < count and not self.failures:
            waiting.wait(0.02)

    @contextmanager
    def writing(self) -> Iterator[Writers]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()


def check(url: URL, before: list[str]) -> None:
    """A service on the restored database: whole quotes with their labels and acts, and all that was acknowledged before the backup."""
    engine = make_engine(url, connections=1)
    with engine.connect() as connection:

        def ids(query: str) -> set[str]:
            return set(connection.execute(text(query)).scalars())

        quotes = ids("SELECT id FROM quotes")
        assert set(before) <= quotes
        assert ids("SELECT subject FROM audit_events WHERE action IN ('quote.created', 'quote.revised')") == quotes
        measured = ids("SELECT quote_id FROM measurements")
        assert set(before) <= measured <= quotes
        assert ids("SELECT quote_id FROM quote_events WHERE kind = 'measured'") == measured
        assert ids("SELECT subject FROM audit_events WHERE action = 'actuals.recorded'") == measured
        # Figures that are kept beside the rows are of the same moment as the rows.
        observed = connection.execute(text("SELECT count(*) FROM measurements WHERE log_ratio IS NOT NULL")).scalar_one()
        counted = connection.execute(text("SELECT sum(n) FROM accuracy_daily WHERE dimension = ''")).scalar_one()
        assert int(counted) == observed >= len(before)
    engine.dispose()
    with TestClient(create_app(settings_for(url))) as restored:
        assert restored.get("/readyz").status_code == 200
        for quote_id in before[:3]:
            assert restored.get(f"/v1/quotes/{quote_id}").json()["status"] == "measured"
        fill(restored, {}, "afterwards")


def run(command: str, folder: Path, **names: str) -> None:
    for name, value in names.items():
        command = command.replace(name, value)
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (command, done.stderr)


def test_a_sqlite_file_is_backed_up_under_writes(_sqlite_template: Path, tmp_path: Path) -> None:
    make, restore = commands("sqlite")
    (tmp_path / "runquote.db").write_bytes(_sqlite_template.read_bytes())
    url = URL.create("sqlite", database=str(tmp_path / "runquote.db"))
    with TestClient(create_app(settings_for(url))) as client, Writers(client).writing() as writers:
        writers.wait_for(10)
        before = list(writers.acknowledged)
        run(make.replace("python3", "python"), tmp_path)
        writers.wait_for(len(before) + 5)
    assert writers.failures == [] and len(writers.acknowledged) > len(before)
    for path in tmp_path.glob("runquote.db*"):
        path.unlink()
    run(restore, tmp_path)
    connection = sqlite3.connect(tmp_path / "runquote.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    check(url, before)


def test_a_postgresql_database_is_backed_up_under_writes(postgresql_server: postgres.Server, tmp_path: Path) -> None:
    make, create, restore = commands("postgresql")
    binaries = postgres.binaries()
    assert binaries is not None
    if not (binaries / "pg_dump").exists():
        pytest.skip("LOUD: pg_dump was NOT run: there is none here")
    url, empty = postgresql_server.create(), postgresql_server.create()
    migration.upgrade(url)

    def there(target: URL) -> str:
        host = target.query.get("host") or target.host
        port = f" -p {target.port}" if target.port else ""
        return f"-h {shlex.quote(str(host))}{port} -U {target.username} -d {target.database}"

    password = f"PGPASSWORD={shlex.quote(url.password)} " if url.password else ""

    def typed(command: str, target: URL) -> str:
        program, _, rest = command.partition(" ")
        return f"{password}{shlex.quote(str(binaries / program))} {rest}".replace("-d runquote", there(target))

    with TestClient(create_app(settings_for(url))) as client, Writers(client).writing() as writers:
        writers.wait_for(10)
        before = list(writers.acknowledged)
        run(typed(make, url), tmp_path)
        writers.wait_for(len(before) + 5)
    assert writers.failures == []
    assert create.startswith("createdb ")  # `empty` is it here
    run(typed(restore, empty), tmp_path)
    check(empty, before)
    for made in (url, empty):
        postgresql_server.drop(made)
