"""What a team has comes out whole, its own alone, in the order it was made, and in memory that does not grow with it."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, MetaData
from starlette.testclient import TestClient

from service.__main__ import main
from service.app import create_app
from service.kit.database import Database
from service.kit.identifiers import uuid7
from service.kit.security import DEFAULT_CALLER, DEFAULT_TEAM_ID
from service.quotes import examples, issuing, repository
from service.team_data import export
from tests.conftest import settings_for
from tests.team_data.filling import Headers, everything, fill, split


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_row_of_the_team_comes_out_and_none_of_another(secured: TestClient, make_key: Callable[..., Headers]) -> None:
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    search = make_key("search", "admin")
    filled = fill(secured, search, "alpha")
    fill(secured, make_key("vision", "admin"), "beta")
    answer = secured.get("/v1/export", headers=search)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson"
    assert "beta" not in answer.text
    rows = lines(answer.text)
    team_id = rows[0]["team_id"]
    with database.read() as connection:
        own, _ = split(everything(connection), team_id)
    for kind in export.KINDS:
        found = [row for row in rows if row["kind"] == kind]
        assert {row["id"] for row in found} == {row["id"] for row in own[kind]} and len(found) == len(own[kind]) > 0
        assert [row["created_at"] for row in found] == sorted(row["created_at"] for row in found)
        assert own[kind][0].keys() <= found[0].keys()
    (quote,) = [row for row in rows if row["id"] == filled.quote_id]
    stored = secured.get(f"/v1/quotes/{filled.quote_id}", headers=search).json()
    assert quote["document"]["items"] == stored["items"] and quote["document"]["summary"] == stored["summary"]
    assert quote["received"]["labels"] == quote["labels"] == {"alpha-label": "alpha", "team": "alpha"}
    assert quote["superseded_at"] is not None and quote["measured_at"] is not None
    values = sorted(row["value"] for row in rows if row["kind"] == "measurements" and row["code"] == "time.step")
    assert values == [8.25, 9.25]
    assert {row["document"] is not None for row in rows if row["kind"] == "calibrations"} == {True}


@pytest.mark.parametrize("kind", export.KINDS)
def test_csv_says_what_the_lines_say(client: TestClient, kind: str) -> None:
    fill(client, {}, "alpha")
    known = [row for row in lines(client.get(f"/v1/export?kind={kind}").text)]
    answer = client.get(f"/v1/export?format=csv&kind={kind}")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(table) == len(known) > 0
    for row, other in zip(table, known, strict=True):
        assert row.keys() == other.keys() - {"kind"}
        for name, text in row.items():
            value = other[name]
            if value is None:
                assert text == ""
            elif isinstance(value, bool):
                assert text == str(value).lower()
            elif isinstance(value, str):
                assert text == value
            else:  # numbers to the last bit, documents as JSON
                assert json.loads(text) == value


def test_a_csv_is_of_one_kind(client: TestClient) -> None:
    assert client.get("/v1/export?format=csv").json()["errors"][0]["parameter"] == "kind"


def test_a_team_without_anything_gets_nothing(client: TestClient) -> None:
    assert client.get("/v1/export").content == b""
    assert client.get("/v1/export?format=csv&kind=projects").text.startswith("id,team_id,created_at,name")


def test_every_table_of_a_team_is_given_out_or_said_not_to_be(database: Database) -> None:
    found = MetaData()
    found.reflect(database.engine)
    of_teams = {table.name for table in found.sorted_tables if "team_id" in table.c}
    assert of_teams == set(export.KINDS) | set(export.LEFT_OUT)


def store(database: Database, count: int, made: datetime) -> None:
    """Quotes as large as they are, most of them made in the same moment."""
    one = issuing.Desk(database, DEFAULT_CALLER).price(examples.SPEC).to_store(DEFAULT_CALLER)
    new = [replace(one, id=uuid7(), created_at=made + timedelta(seconds=index // 50)) for index in range(count)]
    with database.write() as work:
        repository.add(work.connection, new)
        work.commit()


def test_pages_fit_together_where_many_rows_are_of_one_moment(database: Database) -> None:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    store(database, 170, made)
    text = b"".join(export.export(database, DEFAULT_TEAM_ID, ["quotes"], "jsonl", datetime.now(UTC))).decode()
    rows = lines(text)
    assert len({row["id"] for row in rows}) == len(rows) == 170
    assert [(row["created_at"], row["id"]) for row in rows] == sorted((row["created_at"], row["id"]) for row in rows)
    until = b"".join(export.export(database, DEFAULT_TEAM_ID, ["quotes"], "jsonl", made + timedelta(seconds=1)))
    assert len(until.splitlines()) == 100  # what is made meanwhile belongs to the next one


def peak_bytes(database: Database) -> tuple[int, int]:
    """The most memory that an export takes beyond what was there, and how much it gives out."""
    size = 0
    tracemalloc.start()
    for piece in export.export(database, DEFAULT_TEAM_ID, export.KINDS, "jsonl", datetime.now(UTC)):
        size += len(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak, size


def test_memory_does_not_grow_with_what_there_is(database: Database) -> None:
    store(database, 60, datetime(2026, 1, 1, tzinfo=UTC))
    peak_bytes(database)  # what is made once and kept
    few, size_of_few = peak_bytes(database)
    store(database, 340, datetime(2026, 2, 1, tzinfo=UTC))
    many, size_of_many = peak_bytes(database)
    assert size_of_many > 6 * size_of_few
    assert many < 1.3 * few


def test_no_connection_is_held_between_pages(database: Database) -> None:
    """A reader that takes its time takes none from others."""
    store(database, 60, datetime(2026, 1, 1, tzinfo=UTC))
    pieces = export.export(database, DEFAULT_TEAM_ID, ["quotes"], "jsonl", datetime.now(UTC))
    next(pieces)
    assert database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert len(list(pieces)) == 2


def test_the_command_writes_a_whole_file_or_none(
    database_url: URL, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUNQUOTE_DATABASE_URL", database_url.render_as_string(hide_password=False))
    out = tmp_path / "team.jsonl"
    with TestClient(create_app(settings_for(database_url))) as client:
        fill(client, {}, "alpha")
        assert main(["export", "--team", "default", "--out", str(out)]) == 0
        assert out.read_text() == client.get("/v1/export").text
        table = tmp_path / "quotes.csv"
        assert main(["export", "--team", "default", "--format", "csv", "--kind", "quotes", "--out", str(table)]) == 0
        assert table.read_text() == client.get("/v1/export?format=csv&kind=quotes").text
    for refused in (
        ["--team", "nobody", "--out", str(tmp_path / "x")],
        ["--team", "default", "--format", "csv", "--out", str(tmp_path / "x")],
        ["--team", "default", "--out", str(tmp_path / "no" / "such")],
    ):
        assert main(["export", *refused]) == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix not in (".db", ".db-shm", ".db-wal")) == [
        "quotes.csv",
        "team.jsonl",
    ]
