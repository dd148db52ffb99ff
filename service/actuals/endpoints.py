"""Actuals over HTTP: appended, read, and set beside the quote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from service.kit import api, audit, documents, idempotency, paging, problems
from service.kit.documents import JsonBody
from service.kit.idempotency import Answer, Creation, IdempotencyKey
from service.kit.security import Caller, allow
from service.quotes import repository as quotes

from . import intake, matching, recording, repository
from .comparing import compare
from .comparison import exact
from .matching import Target
from .measurement import Ignored, KeptMeasurement
from .schemas import Actuals, Comparison, MeasurementPage, Recorded, ReferencedActuals

router = APIRouter(tags=["actuals"])

_REPLAYED = {"Idempotency-Replayed": "`true` where an earlier request with this key recorded it."}
_EXAMPLE = {
    "attempt": 1,
    "outcome": "completed",
    "covers": ["training", "evaluation", "checkpointing"],
    "steps_completed": 111759,
    "started_at": "2026-01-05T08:00:00Z",
    "ended_at": "2026-03-05T17:46:52Z",
    "device_count": 1024,
    "source": "slurm",
    "job_id": "123456",
    "measurements": [
        {"code": "device_hours.run", "value": 1460000, "method": "scheduler accounting", "basis": "allocated"},
        {"code": "memory.peak_allocated", "value": 6.1e10, "method": "torch.cuda.max_memory_allocated", "scope": "max"},
    ],
}
_BY_REFERENCE = {"external_ref": {"system": "slurm", "id": "cluster-a/123456"}, **_EXAMPLE}


@router.post(
    "/quotes/{quote_id}/actuals",
    status_code=201,
    summary="Record what a run measured",
    openapi_extra=api.takes(Actuals, _EXAMPLE),
    responses=api.gives(201, Recorded, "The measurements, kept.", headers=_REPLAYED)
    | api.gives(200, Recorded, "Every value was recorded before.")
    | api.problems(404, 409, *api.BODY),
)
def create_actuals(
    request: Request, quote_id: str, body: JsonBody, key: IdempotencyKey = None, caller: Caller = allow("actuals:write")
) -> Response:
    """Append one attempt's measurements, or a tool's own file. A value is never overwritten: a correction names what it corrects."""
    received = body.json()
    database = api.database(request)
    with database.read() as connection:
        quote = _find(quotes.get(connection, caller.team_id, quote_id))
    actuals = documents.validate(Actuals, received)

    def prepare() -> Creation:
        run = matching.quoted_run(quote)
        reading = intake.read_document(actuals, run.device_count) if actuals.format else None
        if reading is not None:
            reading = matching.of_quote(reading, actuals, quote)
        return _creation(request, caller, actuals, [Target(quote, run, reading)])

    return idempotency.create(request, caller, key, received, prepare)


@router.post(
    "/actuals",
    status_code=201,
    summary="Record what a run measured, by the job's own name",
    openapi_extra=api.takes(ReferencedActuals, _BY_REFERENCE),
    responses=api.gives(201, Recorded, "The measurements, kept.", headers=_REPLAYED)
    | api.gives(200, Recorded, "Every value was recorded before.")
    | api.problems(404, 409, *api.BODY),
)
def create_actuals_by_reference(
    request: Request, body: JsonBody, key: IdempotencyKey = None, caller: Caller = allow("actuals:write")
) -> Response:
    """The same for the newest quote whose `external_ref` is the job's. A document may name its jobs itself: by cluster and number,
    or by a comment `quote:ID`; of several jobs each goes to its own quote."""
    received = body.json()
    database = api.database(request)
    actuals = documents.validate(ReferencedActuals, received)

    def prepare() -> Creation:
        with database.read() as connection:
            targets, ignored = matching.targets(connection, caller.team_id, actuals)
        return _creation(request, caller, actuals, targets, ignored)

    return idempotency.create(request, caller, key, received, prepare)


@router.get(
    "/quotes/{quote_id}/actuals",
    summary="List what a run measured",
    responses=api.gives(200, MeasurementPage, "A page.", headers={"Link": 'The next page, `rel="next"`.'}) | api.problems(404),
)
def list_actuals(
    request: Request, quote_id: str, limit: paging.Limit = 50, cursor: paging.Cursor = None, caller: Caller = allow("quotes:read")
) -> Response:
    """Every measurement of the quote, corrected ones too, newest first."""
    position = paging.decode(cursor)
    with api.database(request).read() as connection:
        quote = _find(quotes.get(connection, caller.team_id, quote_id))
        found, following = repository.page(connection, caller.team_id, quote.id, position, limit)
    content = {"items": [as_json(one) for one in found], "next_cursor": following}
    return Response(documents.dump(content), headers=paging.link(request, following), media_type=documents.JSON)


@router.get(
    "/quotes/{quote_id}/comparison",
    summary="Compare a quote with what was measured",
    responses=api.gives(200, Comparison, "Estimated and measured, item by item.") | api.problems(404),
)
def get_comparison(request: Request, quote_id: str, caller: Caller = allow("quotes:read")) -> Response:
    """Hours are summed over attempts, memory is the maximum; what follows from a measurement is `derived`; a run that did not
    finish gives bounds. A time's error is decomposed into spec drift, efficiency and operations."""
    with api.database(request).read() as connection:
        quote = _find(quotes.get(connection, caller.team_id, quote_id))
        recorded = repository.all_of(connection, caller.team_id, quote.id)
    content = compare(matching.quoted_run(quote), [one.measurement for one in recorded])
    return Response(documents.dump(content), media_type=documents.JSON)


def _find(quote: quotes.Stored | None) -> quotes.Stored:
    if quote is None:
        raise problems.NotFound("There is no such quote")
    return quote


def _creation(request: Request, caller: Caller, actuals: Actuals, targets: Sequence[Target], ignored: Sequence[Ignored] = ()) -> Creation:
    """Everything that is to be recorded, in one transaction with what follows measurements; 201 where something was new."""
    taken: list[tuple[Target, intake.Intake]] = []
    notes = list(ignored)
    for target in targets:
        reading = target.reading
        whole = intake.Intake(attempts=(intake.given(actuals),)) if reading is None else intake.complete(reading, actuals)
        checked = intake.check(whole, target.run, document=reading is not None)
        taken.append((target, checked))
        notes += [] if reading is None else list(checked.ignored)
    now = datetime.now(UTC)

    def store(connection: Connection) -> Answer:
        told: list[KeptMeasurement] = []
        new: list[KeptMeasurement] = []
        # Always in the same order, so that two requests for the same quotes do not wait for each other.
        for target, checked in sorted(taken, key=lambda entry: entry[0].quote.id):
            done = recording.record(connection, caller.team_id, target.quote, target.run, checked, now, document=actuals.format is not None)
            told += done.all
            new += done.new
        quote_ids = sorted({one.quote_id for one in new})
        audit.record(connection, [_recorded(caller, quote_id, now) for quote_id in quote_ids])
        for follow in followers(request):
            follow(connection, new)
        content = {
            "items": [as_json(one) for one in told],
            "ignored": [{"pointer": note.pointer, "detail": note.detail} for note in intake.told(notes)],
        }
        return Answer(201 if new else 200, documents.dump(content))

    return Creation(store=store)


def _recorded(caller: Caller, quote_id: str, now: datetime) -> audit.Event:
    return audit.Event(team_id=caller.team_id, key_id=caller.key_id, action="actuals.recorded", subject=quote_id, created_at=now)


Follower = Callable[[Connection, Sequence[KeptMeasurement]], None]


def followers(request: Request) -> Sequence[Follower]:
    """What follows new measurements in their transaction, from rooms above this one: ``app`` names them (``accuracy.rollup``)."""
    found: Sequence[Follower] = request.app.state.measurement_followers
    return found


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else documents.timestamp(moment)


def as_json(recorded: KeptMeasurement) -> dict[str, Any]:
    """A measurement as it is answered."""
    one, observation = recorded.measurement, recorded.observation
    return {
        "id": one.id,
        "quote_id": recorded.quote_id,
        "created_at": documents.timestamp(recorded.created_at),
        "attempt": one.attempt,
        "outcome": one.outcome,
        "covers": None if one.covers is None else list(one.covers),
        "steps_completed": one.steps_completed,
        "started_at": _moment(one.started_at),
        "ended_at": _moment(one.ended_at),
        "device_count": one.device_count,
        "source": one.source,
        "job_id": one.job_id,
        "code": one.code,
        "value": exact(one.value),
        "method": one.method,
        "scope": one.scope,
        "excludes": list(one.excludes),
        "basis": one.basis,
        "corrects": one.corrects_id,
        "flags": list(one.flags),
        "repeats": one.repeats,
        "spread": one.spread,
        "estimated": recorded.quoted.expected,
        "log_ratio": None if observation is None else observation.log_ratio,
        "censored": observation is not None and observation.censored,
    }
