"""Team B walks every endpoint that is described, with its own ids and with team A's, and sees nothing of A.

The walk is made from the OpenAPI document: an endpoint that comes later is walked too, and one whose path names an id of a kind that
`fill` does not make fails here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.keys import repository as keys
from service.kit.database import Database
from service.quotes import examples
from service.team_data.deletion import team_id_of
from tests.conftest import settings_for
from tests.team_data.filling import Filled, Headers, everything, fill, split

OF_NO_TEAM = {"preset"}  # of a model in the catalog


@dataclass(frozen=True)
class Walk:
    client: TestClient
    database: Database
    a: Headers
    b: Headers

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.request(method, path, json=body, headers={**self.b, **headers})

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for path, methods in self.client.get("/openapi.json").json()["paths"].items():
            for method, operation in methods.items():
                if path.startswith("/v1/"):
                    yield method.upper(), path, operation

    def rows_of(self, team: str) -> dict[str, Any]:
        with self.database.read() as connection:
            team_id = team_id_of(connection, team)
            assert team_id is not None
            return split(everything(connection), team_id)[0]


def keyed(database: Database, team: str) -> Headers:
    with database.write() as work:
        key = keys.create_key(work.connection, team, ["admin"], datetime.now(UTC))
        work.commit()
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def walk(database_url: URL) -> Iterator[Walk]:
    settings = settings_for(database_url, auth="required", key_requests_per_second=10_000, team_requests_per_second=10_000)
    with TestClient(create_app(settings)) as client:
        database: Database = client.app.state.database  # type: ignore[attr-defined]
        yield Walk(client, database, keyed(database, "a"), keyed(database, "b"))


def example(operation: dict[str, Any]) -> Any:
    return operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")


def names_in(rows: dict[str, Any]) -> set[str]:
    """Everything that would tell of these rows: their ids, and what a caller wrote into them."""
    values = {str(value) for table in rows.values() for row in table for name, value in row.items() if name == "id" or name.endswith("_id")}
    return {value for value in values if re.fullmatch(r"[0-9a-f-]{36}", value)} | {"alpha"}


def test_no_answer_changes_by_what_another_team_does(walk: Walk) -> None:
    """Accuracy, evidence, calibrations, backtests, lists, the export and quotes: to the byte the same before A came and after."""
    own = fill(walk.client, walk.b, "beta")
    ids = {"quote_id": own.quote_id, "project_id": own.project_id, "key_id": own.key_id, "preset": "gpt2-xl"}

    def seen() -> dict[str, Any]:
        answers: dict[str, Any] = {}
        for method, path, _ in walk.operations():
            where = re.sub(r"{(\w+)}", lambda match: ids[match[1]], path)
            if method == "GET":
                answers[f"GET {path}"] = walk.ask("GET", where).content
        for path, body in {
            "/v1/quotes/preview": {**examples.SPEC, "labels": {"team": "beta"}},
            "/v1/backtests": {},
            "/v1/accuracy?group_by=label.team&group_by=device&group_by=engine_version": None,
        }.items():
            answers[path] = walk.ask("POST" if body is not None else "GET", path, body).content
        return answers

    def learnt() -> Any:
        made = walk.ask("POST", "/v1/calibrations", {}).json()
        return made["factors"], made["evidence"]

    factors = learnt()
    before = seen()
    assert json.loads(before["GET /v1/accuracy"])["rows"] and factors[0], "B has something to see"
    for number in range(3):
        fill(walk.client, walk.a, f"alpha{number}")
    assert seen() == before
    assert learnt() == factors


def test_no_id_of_another_team_opens_anything(walk: Walk) -> None:
    a, b = fill(walk.client, walk.a, "alpha"), fill(walk.client, walk.b, "beta")
    rows = walk.rows_of("a")
    telling = names_in(rows)
    assert len(telling) > 20

    def tell_nothing(answer: Any, *sent: str) -> None:
        text = answer.text
        for said in sent:
            text = text.replace(said, "")
        assert not [name for name in telling if name in text], (answer.request.method, answer.request.url, text[:500])

    walked = 0
    of_a = asdict(a)
    for method, path, operation in walk.operations():
        kinds = re.findall(r"{(\w+)}", path)
        if not kinds or set(kinds) <= OF_NO_TEAM:
            continue
        answer = walk.ask(method, path.format(**of_a), example(operation))
        assert answer.status_code == 404, (method, path, answer.text)
        tell_nothing(answer, *of_a.values())
        walked += 1
    assert walked >= 9

    for method, path, operation in walk.operations():
        if method != "GET":
            continue
        own = path.format(**asdict(b), preset="gpt2-xl")
        for parameter in operation.get("parameters", []):
            if parameter["in"] != "query":
                continue
            for value in (a.quote_id, a.key_id, a.project_id, "alpha project", "alpha-slurm:alpha/1", "alpha"):
                name = parameter["name"].replace("<key>", "alpha-label")
                answer = walk.client.get(own, params={name: value}, headers=walk.b)
                assert answer.status_code in (200, 422), answer.text
                tell_nothing(answer, value)
                walked += 1
    assert walked > 100

    entry = rows["ledger_entries"][0]["id"]
    measurement = rows["measurements"][0]["id"]
    values = {"code": "time.step", "value": 1.5, "method": "alpha method"}
    measured = {"attempt": 1, "source": "alpha-source", "measurements": [values]}
    correction = {**measured, "measurements": [{**values, "corrects": measurement}]}
    by_name = {**measured, "external_ref": {"system": "alpha-slurm", "id": a.external_id}}
    job = {"format": "sacct_parsable", "document": f"JobID|State|Elapsed|Comment\n1|COMPLETED|01:00:00|quote:{a.quote_id}\n"}
    for path, body in (
        ("/v1/actuals", by_name),
        ("/v1/actuals", job),
        (f"/v1/quotes/{b.quote_id}/actuals", correction),
        (f"/v1/projects/{b.project_id}/entries", {"stage": "training", "quote_id": a.quote_id}),
        (f"/v1/projects/{b.project_id}/entries", {"stage": "training", "device_hours": 1, "corrects": entry}),
    ):
        answer = walk.ask("POST", path, body)
        assert answer.status_code in (404, 422), (path, answer.text)
        tell_nothing(answer, a.quote_id, a.external_id, entry, measurement, "alpha-source", "alpha method", "alpha-slurm")

    same_key = walk.ask("POST", "/v1/quotes", {**examples.SPEC, "name": "mine"}, **{"Idempotency-Key": "alpha-key"})
    assert same_key.status_code == 201 and "idempotency-replayed" not in same_key.headers
    tell_nothing(same_key)
    same_project = walk.ask("POST", "/v1/projects", {"name": "alpha project"})
    assert same_project.status_code == 201  # a name is taken by its own team alone, or it would tell
    assert walk.rows_of("a") == rows  # and nothing of A's was changed by all this


def test_the_ids_of_paths_are_those_that_the_walk_has(walk: Walk) -> None:
    kinds = {name for _, path, _ in walk.operations() for name in re.findall(r"{(\w+)}", path)}
    assert kinds <= OF_NO_TEAM | set(Filled.__dataclass_fields__)
