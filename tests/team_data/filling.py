"""A team with something of everything that a team may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, MetaData, select
from starlette.testclient import TestClient

from service.quotes import examples

Headers = dict[str, str]


@dataclass(frozen=True, slots=True)
class Filled:
    """Ids of what was made, by the name that paths give them."""

    quote_id: str
    project_id: str
    key_id: str
    external_id: str
    calibration: str


def fill(client: TestClient, admin: Headers, mark: str) -> Filled:
    """Make something of every kind; texts that the team chooses hold the mark."""

    def post(path: str, body: Any, **headers: str) -> Any:
        answer = client.post(path, json=body, headers={**admin, **headers})
        assert answer.status_code in (200, 201), (path, answer.text)
        return answer.json()

    spec = {
        **examples.SPEC,
        "name": f"{mark} run",
        "project": f"{mark} project",
        "labels": {f"{mark}-label": mark, "team": mark},
        "external_ref": {"system": f"{mark}-slurm", "id": f"{mark}/1"},
    }
    quote = post("/v1/quotes", spec, **{"Idempotency-Key": f"{mark}-key"})["id"]
    post(f"/v1/quotes/{quote}/revisions", {"spec": {"name": f"{mark} again"}})
    post("/v1/quotes/batch", {"specs": [spec]})
    for attempt in (1, 2):
        measured = {
            "attempt": attempt,
            "outcome": "completed",
            "covers": ["training"],
            "source": f"{mark}-source",
            "job_id": f"{mark}-{attempt}",
            "measurements": [
                {"code": "time.step", "value": 7.25 + attempt, "method": f"{mark} method"},
                {"code": "device_hours.run", "value": 500000 * attempt, "method": f"{mark} method"},
            ],
        }
        post(f"/v1/quotes/{quote}/actuals", measured)
    calibration = post("/v1/calibrations", {})["version"]
    project = post("/v1/projects", {"name": f"{mark} project", "description": mark})["id"]
    entry = post(f"/v1/projects/{project}/entries", {"stage": "training", "device_hours": 2.5, "note": mark, "quote_id": quote})["id"]
    post(f"/v1/projects/{project}/entries", {"stage": "training", "device_hours": 3.5, "note": mark, "corrects": entry})
    key = post("/v1/keys", {"scopes": ["quotes:read"]})["id"]
    post(f"/v1/keys/{key}/rotate", {})
    return Filled(quote, project, key, f"{mark}/1", calibration)


def everything(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as the database has them."""
    found = MetaData()
    found.reflect(connection)
    return {
        table.name: sorted((dict(row._mapping) for row in connection.execute(select(table))), key=repr)
        for table in found.sorted_tables
        if table.name != "alembic_version"
    }


def split(rows: dict[str, list[dict[str, Any]]], team_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows of a team, and all others: by ``team_id``, of the team itself, or hanging on a quote of the team."""
    quotes = {row["id"] for row in rows["quotes"] if row["team_id"] == team_id}

    def own(name: str, row: dict[str, Any]) -> bool:
        if "team_id" in row:
            return bool(row["team_id"] == team_id)
        return row["quote_id"] in quotes if "quote_id" in row else name == "teams" and row["id"] == team_id

    return (
        {name: [row for row in found if own(name, row)] for name, found in rows.items()},
        {name: [row for row in found if not own(name, row)] for name, found in rows.items()},
    )
