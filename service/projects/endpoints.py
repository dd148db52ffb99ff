"""Projects and their ledgers over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection, Row

from service.kit import api, audit, documents, idempotency, paging
from service.kit.documents import JsonBody
from service.kit.idempotency import Answer, Creation, IdempotencyKey
from service.kit.identifiers import uuid7
from service.kit.problems import Conflict, NotFound, invalid
from service.kit.security import Caller, allow

from . import ledger, repository, schemas
from .ledger import Entry

router = APIRouter(prefix="/projects", tags=["projects"])

_CREATED = {"Location": "Where it is.", "Idempotency-Replayed": "`true` where an earlier request with this key made it."}
_AMOUNTS = ("device_hours", "cpu_hours", "human_hours", "tokens", "bytes")
_EXAMPLE = {"stage": "training", "device": "h100-sxm-80gb", "device_hours": 16.5, "effect": {"metric": "accuracy", "value": 0.71}}


@router.post(
    "",
    status_code=201,
    summary="Open a project",
    openapi_extra=api.takes(schemas.ProjectBody, {"name": "search-assistant"}),
    responses=api.gives(201, schemas.Project, "The project.", headers=_CREATED) | api.problems(409, *api.BODY),
)
def create_project(request: Request, body: JsonBody, key: IdempotencyKey = None, caller: Caller = allow("quotes:write")) -> Response:
    """Open a project; its name is what quotes say in `project`, and their measured attempts are then in its ledger."""
    received = body.json()
    wanted = documents.validate(schemas.ProjectBody, received)
    row = {
        "id": uuid7(),
        "team_id": caller.team_id,
        "created_at": datetime.now(UTC),
        "name": wanted.name,
        "description": wanted.description,
        "rates": documents.dump([rate.model_dump() for rate in wanted.rates]),
    }

    def store(connection: Connection) -> Answer:
        repository.add_project(connection, row)
        audit.record(connection, [_act(caller, "project.created", row)])
        return Answer(201, documents.dump(_project(row)), {"Location": f"/v1/projects/{row['id']}/ledger"})

    creation = Creation(store=store, collision=Conflict("the team has a project of this name"))
    return idempotency.create(request, caller, key, received, lambda: creation)


@router.get(
    "",
    summary="List projects",
    responses=api.gives(200, schemas.ProjectPage, "A page, newest first.", headers={"Link": 'The next page, `rel="next"`.'}),
)
def list_projects(
    request: Request, limit: paging.Limit = 50, cursor: paging.Cursor = None, caller: Caller = allow("quotes:read")
) -> Response:
    """The team's projects."""
    position = paging.decode(cursor)
    with api.database(request).read() as connection:
        rows = repository.page(connection, caller.team_id, position, limit)
    following = paging.next_cursor(rows, limit)
    content = {"items": [_project(row._asdict()) for row in rows[:limit]], "next_cursor": following}
    return Response(documents.dump(content), media_type=documents.JSON, headers=paging.link(request, following))


@router.post(
    "/{project_id}/entries",
    status_code=201,
    summary="Enter something the project spent",
    openapi_extra=api.takes(schemas.EntryBody, _EXAMPLE),
    responses=api.gives(201, schemas.Entry, "The entry.", headers=_CREATED) | api.problems(404, 409, *api.BODY),
)
def create_entry(
    request: Request,
    project_id: str,
    body: JsonBody,
    key: IdempotencyKey = None,
    caller: Caller = allow("quotes:write", "actuals:write"),
) -> Response:
    """Append an entry, the ten thousandth is the last. Nothing is overwritten: one that names another in `corrects` takes its place."""
    received = body.json()
    database = api.database(request)
    with database.read() as connection:
        if repository.project(connection, caller.team_id, project_id) is None:
            raise NotFound("There is no such project")
    wanted = documents.validate(schemas.EntryBody, received)

    def prepare() -> Creation:
        row = _new_entry(wanted, caller.team_id, project_id)

        def store(connection: Connection) -> Answer:
            _check_references(connection, row)
            if repository.count_entries(connection, project_id) >= repository.MOST_ENTRIES:
                raise Conflict(f"a project may have {repository.MOST_ENTRIES} entries")
            repository.add_entry(connection, row)
            audit.record(connection, [_act(caller, "entry.created", row)])
            return Answer(201, documents.dump(_entry(row)), {"Location": f"/v1/projects/{project_id}/ledger"})

        return Creation(store=store, collision=Conflict("the entry was corrected before; correct its correction"))

    return idempotency.create(request, caller, key, received, prepare)


def _act(caller: Caller, action: audit.Action, row: Mapping[str, Any]) -> audit.Event:
    return audit.Event(team_id=caller.team_id, key_id=caller.key_id, action=action, subject=row["id"], created_at=row["created_at"])


def _new_entry(wanted: schemas.EntryBody, team_id: str, project_id: str) -> dict[str, Any]:
    values = wanted.model_dump(include={"stage", "outcome", "final", "exploration", "name", "option", "device", "quote_id", "note"})
    amounts = {name: getattr(wanted, name) for name in _AMOUNTS} | {"device_hours": _device_hours(wanted)}
    effects = _effects(wanted)
    if all(value is None for value in amounts.values()) and not effects and wanted.quote_id is None:
        raise invalid("", "the entry says nothing: give an amount, an effect or a quote_id")
    return {
        "id": uuid7(),
        "team_id": team_id,
        "project_id": project_id,
        "created_at": datetime.now(UTC),
        **values,
        **amounts,
        "effects": documents.dump(effects),
        "corrects_id": wanted.corrects,
    }


def _device_hours(wanted: schemas.EntryBody) -> float | None:
    """As given, or devices times hours."""
    if (wanted.device_count is None) != (wanted.hours is None):
        missing = "hours" if wanted.hours is None else "device_count"
        raise invalid(f"/{missing}", "device_count and hours go together")
    if wanted.device_count is None or wanted.hours is None:
        return wanted.device_hours
    product = wanted.device_count * wanted.hours
    if wanted.device_hours is not None and abs(wanted.device_hours - product) > 1e-6 * max(product, wanted.device_hours):
        raise invalid("/device_hours", "not device_count times hours; give one of the two")
    return wanted.device_hours if wanted.device_hours is not None else product


def _effects(wanted: schemas.EntryBody) -> list[dict[str, Any]]:
    effect = wanted.effect
    if effect is None:
        return []
    if isinstance(effect, schemas.EffectBody):
        return [effect.model_dump()]
    if isinstance(effect, Mapping):
        return [{"metric": metric, "value": float(value), "better": None} for metric, value in effect.items()]
    return [{"metric": "effect", "value": float(effect), "better": None}]


def _check_references(connection: Connection, row: Mapping[str, Any]) -> None:
    if row["quote_id"] is not None and not repository.quote_exists(connection, row["team_id"], row["quote_id"]):
        raise invalid("/quote_id", "there is no such quote")
    if row["corrects_id"] is not None and repository.entry(connection, row["project_id"], row["corrects_id"]) is None:
        raise invalid("/corrects", "this project has no such entry")


@router.get(
    "/{project_id}/ledger",
    summary="Everything a project spent",
    responses=api.gives(200, schemas.Ledger, "The ledger.") | api.problems(404),
)
def get_ledger(request: Request, project_id: str, caller: Caller = allow("quotes:read")) -> Response:
    """By stage, outcome and device kind; the final run's share; options by effect and cost, without a winner."""
    with api.database(request).read() as connection:
        found = repository.project(connection, caller.team_id, project_id)
        if found is None:
            raise NotFound("There is no such project")
        rows = repository.entries(connection, project_id)
        named = sorted({row.quote_id for row in rows if row.quote_id is not None})
        attempts = repository.attempts(connection, caller.team_id, found.name, named)
    entries, notes = _together(rows, attempts)
    rates = [
        ledger.Rate(resource=rate["resource"], amount=Decimal(rate["amount"]), currency=rate["currency"], device=rate["device"])
        for rate in json.loads(found.rates)
    ]
    content = ledger.ledger(entries, rates)
    content["notes"] = notes + content["notes"]
    listed = [_entry(row._asdict()) | {"measured": False} for row in rows]
    listed += [_measured(entry) for entry in entries if entry.measured]
    return Response(documents.dump({"project": _project(found._asdict()), **content, "entries": listed}), media_type=documents.JSON)


def _together(rows: Sequence[Row[Any]], attempts: Mapping[str, Sequence[Entry]]) -> tuple[list[Entry], list[str]]:
    """Entries as given, and measured attempts; an entry that names a quote speaks for that quote's attempts."""
    entries: list[Entry] = []
    notes: list[str] = []
    taken: set[str] = set()
    for row in rows:
        entry = repository.as_entry(row)
        measured = attempts.get(row.quote_id, ()) if row.quote_id is not None and row.quote_id not in taken else ()
        if row.quote_id is not None:
            taken.add(row.quote_id)
        if not measured or entry.device_hours is not None:
            entries.append(entry)
            if row.quote_id is not None and entry.device_hours is None:
                notes.append(f"entry {entry.id}: its quote has no measured hours that are not counted yet")
            continue
        # The entry says what the run was, its attempts what it cost; whatever else it says stands with the last of them.
        said = [
            replace(
                attempt,
                stage=entry.stage,
                final=entry.final,
                exploration=entry.exploration,
                option=entry.option or entry.name or entry.id,
                name=entry.name or attempt.name,
            )
            for attempt in measured
        ]
        extra = {name: getattr(entry, name) for name in ledger.AMOUNTS}
        entries += [*said[:-1], replace(said[-1], effects=entry.effects, **extra)]
    for quote_id, found in attempts.items():
        if quote_id not in taken:
            entries += found
    return entries, notes


def _project(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "created_at": documents.timestamp(row["created_at"]),
        "name": row["name"],
        "description": row["description"],
        "rates": json.loads(row["rates"]),
    }


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("stage", "outcome", "final", "exploration", "name", "option", "device", *_AMOUNTS)
    return {
        "id": row["id"],
        "created_at": documents.timestamp(row["created_at"]),
        **{name: row[name] for name in names},
        "effect": json.loads(row["effects"]) or None,
        "quote_id": row["quote_id"],
        "corrects": row["corrects_id"],
        "note": row["note"],
    }


def _measured(entry: Entry) -> dict[str, Any]:
    """A quote's attempt in the list of entries."""
    quote_id, _, attempt = entry.id.partition(":")
    names = ("stage", "outcome", "final", "exploration", "name", "option", "device", "device_hours")
    return {
        "id": entry.id,
        **{name: getattr(entry, name) for name in names},
        "quote_id": quote_id,
        "attempt": int(attempt),
        "measured": True,
    }
