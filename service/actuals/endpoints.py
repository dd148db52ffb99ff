"""Actuals over HTTP: appended, read, and set beside the quote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from service.accuracy import rollup
from service.catalog import devices
from service.kit import api, documents, idempotency, paging, problems
from service.kit.database import Database
from service.kit.documents import JsonBody
from service.kit.idempotency import Answer, IdempotencyKey
from service.kit.security import Caller, allow
from service.quotes import repository as quotes

from . import intake, recording, repository
from .comparing import compare
from .comparison import exact
from .measurement import Attempt, Ignored, Reading
from .quoted import Quoted, quoted
from .schemas import Actuals, Comparison, MeasurementPage, Recorded, ReferencedActuals

router = APIRouter(tags=["actuals"])

MOST_TOLD = 5  # jobs without a quote that a refusal names
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
    with idempotency.once(database, team_id=caller.team_id, path=request.url.path, key=key, document=received) as use:
        if use.replay is not None:
            return use.replay.response(replayed=True)
        run = quoted_run(quote)
        reading = intake.read_document(actuals, run.device_count) if actuals.format else None
        if reading is not None:
            reading = _of_quote(reading, actuals, quote)
        answer = _record(database, caller, use, actuals, [(quote, run, reading)])
    return answer.response()


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
    with idempotency.once(database, team_id=caller.team_id, path=request.url.path, key=key, document=received) as use:
        if use.replay is not None:
            return use.replay.response(replayed=True)
        with database.read() as connection:
            targets, ignored = _targets(connection, caller, actuals)
        answer = _record(database, caller, use, actuals, targets, ignored)
    return answer.response()


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
        rows = repository.page(connection, caller.team_id, quote.id, position, limit)
    following = paging.next_cursor(rows, limit)
    content = {"items": [as_json(row._asdict()) for row in rows[:limit]], "next_cursor": following}
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
        rows = repository.all_of(connection, caller.team_id, quote.id)
    content = compare(quoted_run(quote), [repository.measured(row) for row in rows])
    return Response(documents.dump(content), media_type=documents.JSON)


def quoted_run(quote: quotes.Stored) -> Quoted:
    """The quote's numbers, with the memory that its device's driver reports."""
    document = quote.estimate()
    name = ((document.get("spec") or {}).get("hardware") or {}).get("device")
    found = devices.find(name) if isinstance(name, str) else None
    return quoted(document, None if found is None else float(found.device.memory_bytes))


def _find(quote: quotes.Stored | None) -> quotes.Stored:
    if quote is None:
        raise problems.NotFound("There is no such quote")
    return quote


def _of_quote(reading: Reading, actuals: Actuals, quote: quotes.Stored) -> Reading:
    """The part of a document that is the quote's job."""
    named = tuple(attempt for attempt in reading.attempts if quote.id in attempt.quote_ids)
    if named and actuals.job_id is None:
        return replace(reading, attempts=named)
    external = (quote.estimate().get("spec") or {}).get("external_ref")
    return intake.choose(reading, intake.wanted_names(actuals, external), actuals.job_id is not None)


_Target = tuple[quotes.Stored, Quoted, Reading | None]


def _targets(connection: Connection, caller: Caller, actuals: ReferencedActuals) -> tuple[list[_Target], list[Ignored]]:
    """The quotes that a request answers, each with its part of the document."""
    if actuals.external_ref is not None:
        reference = (actuals.external_ref.system, actuals.external_ref.id)
        found = quotes.newest_by_references(connection, caller.team_id, [reference]).get(reference)
        if found is None:
            raise problems.NotFound("No quote has this external_ref")
        run = quoted_run(found)
        reading = intake.read_document(actuals, run.device_count) if actuals.format else None
        return [(found, run, None if reading is None else _of_quote(reading, actuals, found))], []
    if actuals.format is None:
        raise intake.refused("/external_ref", "needed: which job it was (or send the tool's document, where it names the job)")
    reading = intake.read_document(actuals)
    if reading.attempts and not any(intake.references(attempt) or attempt.quote_ids for attempt in reading.attempts):
        raise intake.refused("/external_ref", "needed: the document does not name its job")
    wanted = [a for a in reading.attempts if actuals.job_id is None or actuals.job_id in (a.job_id, *a.job_names)]
    quote_of = _quotes_of(connection, caller, wanted)
    unquoted: list[Ignored] = []
    by_quote: dict[str, tuple[quotes.Stored, list[Attempt]]] = {}
    for attempt in wanted:
        found = quote_of(attempt)
        if found is None:
            unquoted.append(Ignored(pointer="", detail=f"{_named(attempt)} has no quote"))
        else:
            by_quote.setdefault(found.id, (found, []))[1].append(attempt)
    if not by_quote and reading.attempts:
        told = "; ".join(entry.detail for entry in unquoted[:MOST_TOLD])
        raise problems.NotFound(f"No quote was made for a job of this document: {told}" if told else "The document has no such job")
    # Read again with the quote's device count, which a document may lack; once for each count.
    again: dict[int | None, dict[tuple[str | None, int | None], list[Attempt]]] = {}
    targets: list[_Target] = []
    for quote, attempts in by_quote.values():
        run = quoted_run(quote)
        if run.device_count not in again:
            again[run.device_count] = _by_try(intake.read_document(actuals, run.device_count).attempts)
        tries = dict.fromkeys((attempt.job_id, attempt.attempt) for attempt in attempts)
        kept = tuple(attempt for key in tries for attempt in again[run.device_count][key])
        targets.append((quote, run, Reading(attempts=kept)))
    return targets, [*reading.ignored, *unquoted]


def _named(attempt: Attempt) -> str:
    """A job as its document names it, and by what its quote was looked for first."""
    names = [f"external_ref {system}:{name}" for system, name in intake.references(attempt)[:1]]
    names += [f"quote {quote_id}" for quote_id in attempt.quote_ids]
    return f"job {attempt.job_id or '?'}" + (f" ({', '.join(names)})" if names else "")


def _quotes_of(connection: Connection, caller: Caller, attempts: Sequence[Attempt]) -> Callable[[Attempt], quotes.Stored | None]:
    """Finds the quote of an attempt: one that its job names, else the newest under one of its job's names."""
    named = quotes.get_many(connection, caller.team_id, (quote_id for attempt in attempts for quote_id in attempt.quote_ids))
    known = quotes.newest_by_references(connection, caller.team_id, (r for attempt in attempts for r in intake.references(attempt)))

    def find(attempt: Attempt) -> quotes.Stored | None:
        by_id = (named[quote_id] for quote_id in attempt.quote_ids if quote_id in named)
        by_name = (known[reference] for reference in intake.references(attempt) if reference in known)
        return next(by_id, None) or next(by_name, None)

    return find


def _by_try(attempts: Sequence[Attempt]) -> dict[tuple[str | None, int | None], list[Attempt]]:
    """Attempts by job and number."""
    found: dict[tuple[str | None, int | None], list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault((attempt.job_id, attempt.attempt), []).append(attempt)
    return found


def _record(
    database: Database,
    caller: Caller,
    use: idempotency.Once,
    actuals: Actuals,
    targets: list[_Target],
    ignored: list[Ignored] | None = None,
) -> Answer:
    """Record everything in one transaction; 201 where something was new."""
    taken = []
    notes = list(ignored or ())
    for quote, run, reading in targets:
        whole = intake.Intake(attempts=(intake.given(actuals),)) if reading is None else intake.complete(reading, actuals)
        checked = intake.check(whole, run, document=reading is not None)
        taken.append((quote, run, checked))
        notes += [] if reading is None else list(checked.ignored)
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    with database.write() as work:
        new: list[dict[str, Any]] = []
        # Always in the same order, so that two requests for the same quotes do not wait for each other.
        for quote, run, checked in sorted(taken, key=lambda entry: entry[0].id):
            done = recording.record(work.connection, caller.team_id, quote, run, checked, now, actuals.format is not None)
            rows += done.rows
            new += done.new
        _tell_accuracy(work.connection, new)
        content = {
            "items": [as_json(row) for row in rows],
            "ignored": [{"pointer": note.pointer, "detail": note.detail} for note in notes],
        }
        answer = Answer(201 if new else 200, documents.dump(content))
        use.keep(work.connection, answer)
        work.commit()
    return answer


def _tell_accuracy(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Figures of accuracy follow in the same transaction."""
    rollup.follow(connection, rows)


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else documents.timestamp(moment)


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A stored row as it is answered."""
    return {
        "id": row["id"],
        "quote_id": row["quote_id"],
        "created_at": documents.timestamp(row["created_at"]),
        "attempt": row["attempt"],
        "outcome": row["outcome"],
        "covers": None if row["covers"] is None else row["covers"].split(),
        "steps_completed": row["steps_completed"],
        "started_at": _moment(row["started_at"]),
        "ended_at": _moment(row["ended_at"]),
        "device_count": row["device_count"],
        "source": row["source"],
        "job_id": row["job_id"],
        "code": row["code"],
        "value": exact(row["value"]),
        "method": row["method"],
        "scope": row["scope"] or None,
        "excludes": row["excludes"].split(),
        "basis": row["basis"],
        "corrects": row["corrects_id"],
        "flags": row["flags"].split(),
        "repeats": row["repeats"],
        "spread": row["spread"],
        "estimated": row["estimated"],
        "log_ratio": row["log_ratio"],
        "censored": row["censored"],
    }
