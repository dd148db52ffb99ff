"""Quotes over HTTP: made and revised."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from sqlalchemy import Connection

from service.kit import api, documents, idempotency, problems
from service.kit.direct import DirectRoute
from service.kit.documents import Body, JsonBody
from service.kit.idempotency import Answer, Creation, IdempotencyKey
from service.kit.merge_patch import patched
from service.kit.security import Caller, allow
from service.specs.spec import RunSpec

from . import examples, issuing, reading, repository
from .issuing import BESIDE_THE_STEP, Priced
from .schemas import Batch, BatchResult, Quote, Revision

router = APIRouter(prefix="/quotes", tags=["quotes"])
direct = APIRouter(prefix="/quotes", tags=["quotes"], route_class=DirectRoute)
routers = (direct, router, reading.router)

_CREATED = {"Location": "Where the quote is.", "Idempotency-Replayed": "`true` where an earlier request with this key made it."}


@direct.post(
    "",
    status_code=201,
    summary="Quote a run",
    openapi_extra=api.takes(RunSpec, examples.SPEC),
    responses=api.gives(201, Quote, "The quote, stored.", headers=_CREATED) | api.problems(409, *api.BODY),
)
async def create_quote(request: Request, body: JsonBody, key: IdempotencyKey = None, caller: Caller = allow("quotes:write")) -> Response:
    """Price a training run, item by item, and keep the quote."""
    database = api.database(request)
    if key is not None:
        return await run_in_threadpool(_create_once, request, caller, key, body)
    new = (await issuing.price_body(database, caller, body)).to_store(caller)
    await request.app.state.quote_writer.write(new)
    request.app.state.metrics.quotes.labels("single").inc()
    return _created(new).response()


def _create_once(request: Request, caller: Caller, key: str, body: Body) -> Response:
    received = body.json()

    def prepare() -> Creation:
        return _creation(request, caller, issuing.price(api.database(request), caller, received))

    return idempotency.create(request, caller, key, received, prepare)


@direct.post(
    "/preview",
    summary="Quote a run without keeping it",
    openapi_extra=api.takes(RunSpec, examples.SPEC),
    responses=api.gives(200, Quote, "The quote; its `id` is null.") | api.problems(*api.BODY),
)
async def preview_quote(request: Request, body: JsonBody, caller: Caller = allow("quotes:read", "quotes:write")) -> Response:
    """The same answer as a quote's, but nothing is stored."""
    priced = await issuing.price_body(api.database(request), caller, body)
    return Response(priced.preview(), media_type=documents.JSON)


@router.post(
    "/batch",
    status_code=201,
    summary="Quote many runs",
    openapi_extra=api.takes(Batch, {"specs": [examples.SPEC]}),
    responses=api.gives(
        201, BatchResult, "A quote or a problem for each spec.", headers={"Idempotency-Replayed": _CREATED["Idempotency-Replayed"]}
    )
    | api.problems(409, *api.BODY),
)
def create_quotes(request: Request, body: JsonBody, key: IdempotencyKey = None, caller: Caller = allow("quotes:write")) -> Response:
    """Up to 1000 specs: the good ones are stored in one transaction, the others answered with their problem. Changes that make a run
    fit are searched for the first 100 that do not fit; the others say so with a warning."""
    received, faults = body.examine()
    apart = _faults_by_spec(faults)
    batch = documents.validate(Batch, received)
    database = api.database(request)

    def prepare() -> Creation:
        new: list[repository.New] = []
        entries: list[bytes] = []
        kept: list[dict[str, Any]] = []
        desk = issuing.Desk(database, caller)
        way = request.app.state.limits.way()
        for index, spec in enumerate(batch.specs):
            way.give()
            try:
                if index in apart:
                    raise problems.Invalid(apart[index][0].detail, errors=apart[index][: documents.MAXIMUM_FAULTS])
                quote = desk.price(spec).to_store(caller)
            except problems.Problem as problem:
                kept.append({"index": index, "problem": problem.as_json()})
                entries.append(documents.encode(kept[-1]))
            else:
                new.append(quote)
                kept.append({"index": index, "quote_id": quote.id})
                entries.append(b'{"index":%d,"quote":%b}' % (index, repository.envelope(quote.document, quote)))
        # The quotes are stored once, as quotes: the answer to be repeated names them.
        answer = Answer(201, _items(entries), kept=documents.encode({"kept": kept}))

        def store(connection: Connection) -> Answer:
            repository.add(connection, new)
            return answer

        return Creation(store=store, stored=lambda: request.app.state.metrics.quotes.labels("batch").inc(len(new)))

    return idempotency.create(request, caller, key, received, prepare, partial(_batch_again, caller.team_id))


def _batch_again(team_id: str, connection: Connection, kept: bytes) -> bytes | list[bytes]:
    """The answer to a batch as it was, from the quotes it stored and the problems it told; quotes never change but for their status."""
    entries = json.loads(kept).get("kept")
    if entries is None:  # kept whole, by an earlier release
        return kept
    stored = repository.get_many(connection, team_id, [entry["quote_id"] for entry in entries if "quote_id" in entry])
    items = []
    for entry in entries:
        if "quote_id" not in entry:
            items.append(documents.encode(entry))
        elif (quote := stored.get(entry["quote_id"])) is not None:
            items.append(b'{"index":%d,"quote":%b}' % (entry["index"], replace(quote, status="open").as_json()))
        else:
            gone = problems.NotFound("The quote was made, and has been deleted since").as_json()
            items.append(documents.encode({"index": entry["index"], "problem": gone}))
    return _items(items)


def _items(entries: list[bytes]) -> list[bytes]:
    """An answer that holds these, in parts."""
    separated = [part for entry in entries for part in (b",", entry)]
    return [b'{"items":[', *separated[1:], b"]}"]


@router.post(
    "/{quote_id}/revisions",
    status_code=201,
    summary="Revise a quote",
    openapi_extra=api.takes(Revision, examples.REVISION),
    responses=api.gives(201, Quote, "The quote that supersedes.", headers=_CREATED) | api.problems(404, 409, *api.BODY),
)
def create_revision(
    request: Request, quote_id: str, body: JsonBody, key: IdempotencyKey = None, caller: Caller = allow("quotes:write")
) -> Response:
    """A new quote from a change to the spec (a JSON merge patch) or from what a pilot measured; the old one stays as it was."""
    received = body.json()
    database = api.database(request)
    with database.read() as connection:
        quote = reading.find(connection, caller, quote_id)
    revision = documents.validate(Revision, received)
    if revision.spec is None and revision.pilot is None:
        raise problems.invalid("", "give spec, pilot or both")
    stored_pilot: list[issuing.Measurement] = [] if quote.pilot is None else json.loads(quote.pilot)

    def prepare() -> Creation:
        pilot, patch = stored_pilot, revision.spec or {}
        dropped = bool(pilot) and not patch.keys() <= BESIDE_THE_STEP
        if dropped:
            pilot = []
        if revision.pilot is not None:
            pilot = issuing.with_pilot(pilot, revision.pilot)
        try:
            priced = issuing.price(database, caller, patched(json.loads(quote.received), patch), pilot=pilot)
        except problems.Invalid as problem:  # its pointers lead into the spec, which stands at /spec here
            raise _below(problem, "/spec") from None
        if dropped:
            priced = priced.saying(
                "pilot_dropped", "the spec's step changed, so what the pilot of the superseded quote measured no longer holds", "/spec"
            )
        return _revision(request, caller, priced, quote.id)

    return idempotency.create(request, caller, key, received, prepare)


def _creation(request: Request, caller: Caller, priced: Priced) -> Creation:
    """A priced quote, ready to be stored and answered."""
    new = priced.to_store(caller)
    answer = _created(new)

    def store(connection: Connection) -> Answer:
        repository.add(connection, [new])
        return answer

    return Creation(store=store, stored=lambda: request.app.state.metrics.quotes.labels("single").inc())


def _revision(request: Request, caller: Caller, priced: Priced, supersedes_id: str) -> Creation:
    """A priced revision: what else supersedes the quote is looked up with the quote held, so that of two at once one says so."""

    def store(connection: Connection) -> Answer:
        repository.hold(connection, caller.team_id, supersedes_id)
        beside = repository.newest_revision(connection, caller.team_id, supersedes_id)
        own = priced
        if beside is not None:  # variants side by side are allowed, and said
            own = priced.saying(
                "superseded_before",
                f"quote {beside} supersedes the same quote: this one stands beside it and holds nothing of its changes; to build on them "
                "revise that one",
            )
        new = own.to_store(caller, supersedes_id)
        repository.add(connection, [new])
        return _created(new)

    return Creation(store=store, stored=lambda: request.app.state.metrics.quotes.labels("revision").inc())


def _created(new: repository.New) -> Answer:
    return Answer(201, repository.envelope(new.document, new), {"Location": f"/v1/quotes/{new.id}"})


def _below(problem: problems.Invalid, prefix: str) -> problems.Invalid:
    faults = [problems.Fault(prefix + fault.pointer, fault.detail, fault.parameter) for fault in problem.errors]
    return problems.Invalid(problem.detail, errors=faults)


def _faults_by_spec(faults: list[problems.Fault]) -> dict[int, list[problems.Fault]]:
    """Refused values by the spec of a batch they stand in, pointers from there; what stands outside of all refuses the batch."""
    apart: dict[int, list[problems.Fault]] = defaultdict(list)
    outside = []
    for fault in faults:
        parts = fault.pointer.split("/", 3)
        if len(parts) > 2 and parts[1] == "specs" and parts[2].isdecimal():
            inner = "/" + parts[3] if len(parts) > 3 else ""
            apart[int(parts[2])].append(problems.Fault(inner, fault.detail))
        else:
            outside.append(fault)
    if outside:
        raise problems.Invalid(outside[0].detail, errors=outside[: documents.MAXIMUM_FAULTS])
    return apart
