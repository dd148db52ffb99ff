"""A team that is removed is removed whole, and nothing of another's is touched."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.__main__ import main
from service.app import create_app
from service.kit.database import Database
from service.kit.security import DEFAULT_TEAM, DEFAULT_TEAM_ID
from service.quotes import examples
from service.team_data import deletion
from tests.conftest import settings_for
from tests.team_data.filling import Headers, everything, fill, split


def test_all_of_a_team_goes_and_nothing_else(secured: TestClient, make_key: Callable[..., Headers]) -> None:
    """Over every table that the database has, whichever rooms came after this test was written."""
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    fill(secured, make_key("search", "admin"), "alpha")
    vision = make_key("vision", "admin")
    kept = fill(secured, vision, "beta")
    with database.read() as connection:
        before = everything(connection)
        team_id = deletion.team_id_of(connection, "search")
        assert team_id is not None
        counted = deletion.count_rows(connection, team_id)
    own, others = split(before, team_id)
    assert [name for name, rows in own.items() if not rows] == [], "fill() makes nothing of these tables"
    assert [name for name, rows in others.items() if not rows] == []
    with database.write() as work:
        gone = deletion.delete_team(work.connection, team_id)
        work.commit()
    assert gone == counted == {name: len(rows) for name, rows in own.items() if "team_id" in rows[0]}
    with database.read() as connection:
        after = everything(connection)
    assert after == others
    assert team_id not in repr(after) and "alpha" not in repr(after)
    assert secured.get(f"/v1/quotes/{kept.quote_id}", headers=vision).status_code == 200


def test_a_team_that_writes_meanwhile_is_removed_too(secured: TestClient, make_key: Callable[..., Headers]) -> None:
    """What it is told is kept, refused for its key, or that its team is gone; afterwards nothing is there."""
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    headers = make_key("search", "admin")
    with database.read() as connection:
        team_id = str(deletion.team_id_of(connection, "search"))
    told: list[int] = []

    def write(body: object, path: str) -> None:
        while not told or told[-1] == 201:
            told.append(secured.post(path, json=body, headers=headers).status_code)

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, examples.SPEC, "/v1/quotes"), pool.submit(write, {"specs": [examples.SPEC]}, "/v1/quotes/batch")]
        while told.count(201) < 5:
            time.sleep(0.01)
        with database.write() as work:
            deletion.delete_team(work.connection, team_id)
            work.commit()
        for writer in writers:
            writer.result()
    assert set(told) <= {201, 401, 409, 429}
    with database.read() as connection:
        assert team_id not in repr(everything(connection))


def test_a_transaction_that_is_not_committed_removes_nothing(secured: TestClient, make_key: Callable[..., Headers]) -> None:
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    fill(secured, make_key("search", "admin"), "alpha")
    with database.write() as work:
        before = everything(work.connection)
        deletion.delete_team(work.connection, str(deletion.team_id_of(work.connection, "search")))
    with database.read() as connection:
        assert everything(connection) == before


def test_the_default_team_stays_without_its_rows(client: TestClient) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    client.post("/v1/quotes", json=examples.SPEC)
    with database.write() as work:
        deletion.delete_team(work.connection, DEFAULT_TEAM_ID)
        work.commit()
    assert client.get("/v1/quotes").json()["items"] == []
    assert client.post("/v1/quotes", json=examples.SPEC).status_code == 201


def test_the_command_asks_for_yes(database_url: URL, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RUNQUOTE_DATABASE_URL", database_url.render_as_string(hide_password=False))
    with TestClient(create_app(settings_for(database_url))) as client:
        client.post("/v1/quotes", json=examples.SPEC)
        command = ["delete-team", "--team", DEFAULT_TEAM]
        assert main(command) == 2
        assert "quotes\t1" in capsys.readouterr().out
        assert len(client.get("/v1/quotes").json()["items"]) == 1
        assert main([*command, "--yes"]) == 0
        assert "quotes\t1" in capsys.readouterr().out
        assert client.get("/v1/quotes").json()["items"] == []
    assert main(["delete-team", "--team", "nobody", "--yes"]) == 2
