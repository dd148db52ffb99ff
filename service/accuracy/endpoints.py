"""Accuracy, calibrations and backtests over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection, select

from service.calibrations import corrections
from service.calibrations import repository as calibrations
from service.calibrations.repository import Stored
from service.estimation.codes import CODES
from service.kit import api, audit, documents, idempotency, paging
from service.kit.database import Database
from service.kit.documents import Body
from service.kit.idempotency import Answer, Creation, IdempotencyKey
from service.kit.identifiers import uuid7
from service.kit.problems import Busy, invalid_parameter
from service.kit.security import Caller, allow, teams
from service.learning import drivers, sharing
from service.settings import Settings

from . import backtests, history, query, repository, schemas
from .query import LABEL, GroupFigures, Question

router = APIRouter()

MAXIMUM_EVIDENCE = 100_000  # newest measurements a calibration is learnt from


async def _body(request: Request) -> Body:
    """A JSON body, which may be left out: every field has a default."""
    if "content-type" not in request.headers and request.headers.get("content-length", "0") == "0":
        return Body(b"{}")
    return await documents.read_body(request)


OptionalBody = Annotated[Body, Depends(_body)]


@router.get(
    "/accuracy",
    tags=["accuracy"],
    summary="How far quotes were from what was measured",
    responses=api.gives(200, schemas.Accuracy, "A row for each group and code."),
    openapi_extra={
        "parameters": [
            {
                "name": "label.<key>",
                "in": "query",
                "required": False,
                "description": "Only runs with this label, for example `label.team=search`; repeatable with other keys, "
                f"{paging.MOST_LABELS} of them at most.",
                "schema": {"type": "string"},
            }
        ]
    },
)
def get_accuracy(
    request: Request,
    group_by: Annotated[
        list[str],
        Query(default_factory=list, description="Repeatable: " + ", ".join(f"`{name}`" for name in query.GROUPS) + " or `label.<key>`."),
    ],
    code: Annotated[str | None, Query(max_length=80, description="One item alone, for example `device_hours.run`.")] = None,
    window: Annotated[str | None, Query(pattern=schemas.WINDOW, description="Days or weeks up to today (UTC): `30d`, `8w`.")] = None,
    caller: Caller = allow("accuracy:read"),
) -> Response:
    """Bias, errors, coverage and drift of the team's own quotes, by whatever they are grouped by."""
    labels = _labels(request)
    if len({name for name in group_by if name.startswith(LABEL)} | labels.keys()) > paging.MOST_LABELS:
        raise invalid_parameter(LABEL, f"at most {paging.MOST_LABELS} labels at a time")
    question = Question(
        team_id=caller.team_id,
        team=caller.team,
        group_by=_groups(group_by),
        code=code,
        window_days=schemas.days(window),
        labels=labels,
    )
    with api.database(request).read() as connection:
        if code is not None and code not in CODES and not repository.judged(connection, caller.team_id, code):
            raise invalid_parameter("code", "no such item, and nothing measured has this code" + documents.nearest(code, list(CODES)))
        rows = query.answer(connection, question, datetime.now(UTC))
    return Response(documents.dump({"rows": [_accuracy_row(row) for row in rows]}), media_type=documents.JSON)


def _groups(names: list[str]) -> tuple[str, ...]:
    for name in names:
        if name not in query.GROUPS and not (name.startswith(LABEL) and 0 < len(name) - len(LABEL) <= 200):
            raise invalid_parameter("group_by", "one of " + ", ".join(query.GROUPS) + ", label.<key>")
    if len(set(names)) != len(names):
        raise invalid_parameter("group_by", "the same group twice")
    return tuple(names)


def _labels(request: Request) -> dict[str, str]:
    """Labels that runs are chosen by; `api.known_parameters` has refused a name given twice."""
    found = {name.removeprefix(LABEL): value for name, value in request.query_params.multi_items() if name.startswith(LABEL)}
    if "" in found:
        raise invalid_parameter(LABEL, "the label's name is missing")
    return found


def _accuracy_row(row: GroupFigures) -> dict[str, Any]:
    summary = row.summary
    return {
        "group": row.group,
        "code": row.code,
        **schemas.figures(summary),
        "interval_coverage": summary.interval_coverage,
        "coverage_low": summary.coverage_low,
        "coverage_high": summary.coverage_high,
        "pinball_loss": summary.pinball_loss,
        "drift": row.drift,
        "drift_since": None if row.change is None else documents.timestamp(row.change.since),
        "drift_direction": None if row.change is None else "up" if row.change.upward else "down",
        "exact": row.exact,
    }


@router.get(
    "/calibrations",
    tags=["accuracy"],
    summary="List calibrations",
    responses=api.gives(200, schemas.CalibrationPage, "A page, newest first.", headers={"Link": 'The next page, `rel="next"`.'}),
)
def list_calibrations(
    request: Request, limit: paging.Limit = 20, cursor: paging.Cursor = None, caller: Caller = allow("accuracy:read")
) -> Response:
    """The team's calibrations with their factors. A quote names the one it was made with."""
    position = paging.decode(cursor)
    with api.database(request).read() as connection:
        rows, following = calibrations.page(connection, caller.team_id, position, limit)
    content = {"items": [_calibration(row) for row in rows], "next_cursor": following}
    return Response(documents.dump(content), media_type=documents.JSON, headers=paging.link(request, following))


@router.post(
    "/calibrations",
    status_code=201,
    tags=["accuracy"],
    summary="Learn from what was measured",
    openapi_extra=api.takes(schemas.CalibrationRequest, {"window": "180d"}),
    responses=api.gives(201, schemas.Calibration, "The new version; quotes use it from now on.") | api.problems(409, *api.BODY),
)
def create_calibration(
    request: Request, body: OptionalBody, key: IdempotencyKey = None, caller: Caller = allow("calibrations:write")
) -> Response:
    """Fit correction factors to the measurements and keep them as a version of their own; older versions stay as they are."""
    received = body.json()
    wanted = documents.validate(schemas.CalibrationRequest, received)
    database = api.database(request)

    def prepare() -> Creation:
        values = _fitted(database, request.app.state.settings, caller, wanted)
        return Creation(
            store=lambda connection: _stored(connection, caller, values),
            stored=lambda: corrections.forget(database, caller.team_id),
            collision=Busy("Other calibrations are being made at the same time", headers={"Retry-After": "1"}),
            tries=5,  # another request may have taken the number
        )

    return idempotency.create(request, caller, key, received, prepare)


def _stored(connection: Connection, caller: Caller, values: Mapping[str, Any]) -> Answer:
    made = calibrations.add(connection, values)
    act = audit.Event(
        team_id=caller.team_id, key_id=caller.key_id, action="calibration.created", subject=made.version, created_at=made.created_at
    )
    audit.record(connection, [act])
    return Answer(201, documents.dump(_calibration(made)))


def _fitted(database: Database, settings: Settings, caller: Caller, wanted: schemas.CalibrationRequest) -> dict[str, Any]:
    now = datetime.now(UTC)
    window_days = schemas.days(wanted.window)
    with database.read() as connection:
        begin = history.since(window_days, now)
        own = history.evidence(connection, begin=begin, team_ids=[caller.team_id], limit=MAXIMUM_EVIDENCE)
        others = history.evidence(connection, begin=begin, team_ids=_sharing(connection, settings, caller), limit=MAXIMUM_EVIDENCE)
    shared = sharing.from_others((entry.team_id, entry.evidence) for entry in others)
    # Others' runs come first: what a team measured itself is the newer word where both speak of one cell.
    fits = drivers.learn([*shared, *(entry.evidence for entry in own)], half_life_runs=wanted.half_life_runs)
    paths = {entry.evidence.facts.path() for entry in own}
    return {
        "id": uuid7(),
        "team_id": caller.team_id,
        "created_at": now,
        "window_days": window_days,
        "half_life_runs": wanted.half_life_runs,
        "evidence": len(own) + len(shared),
        "document": corrections.write(fits, sorted(paths)),
    }


def _sharing(connection: Connection, settings: Settings, caller: Caller) -> list[str]:
    """Other teams whose measurements this one may learn from: none unless the operator, this team and they agree to it."""
    if not settings.shared_learning:
        return []
    agreed = set(connection.execute(select(teams.c.id).where(teams.c.shares_learning)).scalars())
    return sorted(agreed - {caller.team_id}) if caller.team_id in agreed else []


def _calibration(stored: Stored) -> dict[str, Any]:
    return {
        "version": stored.version,
        "created_at": documents.timestamp(stored.created_at),
        "window": None if stored.window_days is None else f"{stored.window_days}d",
        "half_life_runs": stored.half_life_runs,
        "evidence": stored.evidence,
        "factors": corrections.factors(corrections.read(stored.document)),
    }


@router.post(
    "/backtests",
    tags=["accuracy"],
    summary="Replay history",
    openapi_extra=api.takes(schemas.BacktestRequest, {"window": "90d", "code": "device_hours.run"}),
    responses=api.gives(200, schemas.Backtest, "The engines side by side.") | api.problems(*api.BODY),
)
def run_backtest(request: Request, body: OptionalBody, caller: Caller = allow("accuracy:read")) -> Response:
    """In order, quote before actual: the error of the formulas alone, with corrections, and of the team's last similar run."""
    wanted = body.read(schemas.BacktestRequest)
    with api.database(request).read() as connection:
        rows = backtests.run(connection, caller.team_id, window_days=schemas.days(wanted.window), code=wanted.code, now=datetime.now(UTC))
    return Response(documents.dump({"rows": rows}), media_type=documents.JSON)
