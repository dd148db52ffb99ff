"""Quotes over HTTP."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from service.kit import api, documents, idempotency, paging, problems
from service.kit.documents import JsonBody, Moment
from service.kit.idempotency import Answer, Creation, IdempotencyKey
from service.kit.security import Caller, allow
from service.specs.load import run_of
from service.specs.spec import RunSpec

from . import evidence, examples, issuing, listing, repository
from .evidence import Evidence
from .issuing import BESIDE_THE_STEP, Priced, merge_patch
from .schemas import Batch, BatchResult, Quote, QuotePage, Revision

router = APIRouter(prefix="/quotes", tags=["quotes"])

_CREATED = {"Location": "Where the quote is.", "Idempotency-Replayed": "`true` where an earlier request with this key made it."}


@router.post(
    "",
    status_code=201,
    summary="Quote a run",
    openapi_extra=api.takes(RunSpec, examples.SPEC),
    responses=api.gives(201, Quote, "The quote, stored.", headers=_CREATED) | api.problems(409, *api.BODY),
)
def create_quote(request: Request, body: JsonBody, key: IdempotencyKey = None, caller: Caller = allow("quotes:write")) -> Response:
    """Price a training run, item by item, and keep the quote."""
    received = body.json()

    def prepare() -> Creation:
        return _creation(request, caller, issuing.price(api.database(request), caller, received))

    return idempotency.create(request, caller, key, received, prepare)


@router.post(
    "/preview",
    summary="Quote a run without keeping it",
    openapi_extra=api.takes(RunSpec, examples.SPEC),
    responses=api.gives(200, Quote, "The quote; its `id` is null.") | api.problems(*api.BODY),
)
def preview_quote(request: Request, body: JsonBody, caller: Caller = allow("quotes:read", "quotes:write")) -> Response:
    """The same answer as a quote's, but nothing is stored."""
    return Response(issuing.price(api.database(request), caller, body.json()).preview(), media_type=documents.JSON)


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
    """Up to 1000 specs: the good ones are stored in one transaction, the others answered with their problem."""
    received, faults = body.examine()
    apart = _faults_by_spec(faults)
    batch = documents.validate(Batch, received)
    database = api.database(request)

    def prepare() -> Creation:
        new: list[repository.New] = []
        entries: list[bytes] = []
        prices = issuing.Desk(database, caller)
        for index, spec in enumerate(batch.specs):
            try:
                if index in apart:
                    raise problems.Invalid(apart[index][0].detail, errors=apart[index])
                quote = prices.price(spec).to_store()
            except problems.Problem as problem:
                entries.append(documents.encode({"index": index, "problem": problem.as_json()}))
            else:
                new.append(quote)
                entries.append(b'{"index":%d,"quote":%b}' % (index, repository.envelope(quote.document, quote)))
        answer = Answer(201, b'{"items":[%b]}' % b",".join(entries))

        def store(connection: Connection) -> Answer:
            repository.add(connection, caller.team_id, new)
            return answer

        return Creation(store=store, stored=lambda: request.app.state.metrics.quotes.labels("batch").inc(len(new)))

    return idempotency.create(request, caller, key, received, prepare)


@router.get(
    "",
    summary="List quotes",
    responses=api.gives(200, QuotePage, "A page.", headers={"Link": 'The next page, `rel="next"`.'}),
    openapi_extra={
        "parameters": [
            {
                "name": "label.<key>",
                "in": "query",
                "required": False,
                "description": "Only quotes with this label, for example `label.team=search`; repeatable with other keys.",
                "schema": {"type": "string"},
            }
        ]
    },
)
def list_quotes(
    request: Request,
    model: Annotated[str | None, Query(description="A preset, or the name or type in a Hugging Face config.")] = None,
    device: Annotated[str | None, Query(description="A device of `GET /v1/devices`.")] = None,
    method: Annotated[Literal["full", "lora", "qlora", "frozen"] | None, Query(description="What is trained.")] = None,
    status: Annotated[Literal["open", "superseded", "measured"] | None, Query(description="What became of the quote.")] = None,
    project: Annotated[str | None, Query(description="The spec's project.")] = None,
    external_ref: Annotated[str | None, Query(description="`system:id` of the job in the caller's own system.")] = None,
    created_after: Annotated[Moment | None, Query(description="Later than this moment.")] = None,
    created_before: Annotated[Moment | None, Query(description="Earlier than this moment.")] = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
    caller: Caller = allow("quotes:read"),
) -> Response:
    """The team's quotes, newest first; every filter that is given must hold."""
    labels = {name.removeprefix("label."): value for name, value in request.query_params.items() if name.startswith("label.")}
    reference = None
    if external_ref is not None:
        system, separator, external_id = external_ref.partition(":")
        if not separator:
            raise problems.invalid_parameter("external_ref", "write system:id")
        reference = (system, external_id)
    wanted = listing.Filter(
        model=model,
        device=device,
        method=method,
        status=status,
        project=project,
        external_ref=reference,
        labels=labels,
        created_after=created_after,
        created_before=created_before,
    )
    position = paging.decode(cursor)
    with api.database(request).read() as connection:
        rows = listing.page(connection, caller.team_id, wanted, position, limit)
    following = paging.next_cursor(rows, limit)
    items = b",".join(row.as_json() for row in rows[:limit])
    body = b'{"items":[%b],"next_cursor":%b}' % (items, documents.encode(following))
    return Response(body, headers=paging.link(request, following), media_type=documents.JSON)


@router.get(
    "/{quote_id}",
    summary="Get a quote",
    responses=api.gives(200, Quote, "The quote.", headers={"ETag": "Changes when the status does."})
    | {304: {"description": "Unchanged since the version in `If-None-Match`."}}
    | api.problems(404, 406),
)
def get_quote(request: Request, quote_id: str, caller: Caller = allow("quotes:read")) -> Response:
    """A quote as it was made; only its status can have changed."""
    if not _accepts_json(request.headers.get("accept")):
        raise problems.NotAcceptable("A quote is answered as application/json")
    with api.database(request).read() as connection:
        quote = _find(repository.get(connection, caller.team_id, quote_id))
    body = quote.as_json()
    headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"', "Vary": "Accept", "Cache-Control": "private, no-cache"}
    if _matches(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=documents.JSON)


@router.get(
    "/{quote_id}/evidence",
    summary="List the measured runs most like a quote's",
    responses=api.gives(200, Evidence, "The nearest first.") | api.problems(404),
)
def get_evidence(
    request: Request,
    quote_id: str,
    limit: Annotated[int, Query(ge=1, le=50, description="How many at most.")] = 5,
    caller: Caller = allow("quotes:read"),
) -> Response:
    """Published measurements, each with its source and how its run differs from the quoted one."""
    with api.database(request).read() as connection:
        quote = _find(repository.get(connection, caller.team_id, quote_id))
    return Response(documents.dump(evidence.of(run_of(quote.estimate()["spec"]), limit)), media_type=documents.JSON)


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
        quote = _find(repository.get(connection, caller.team_id, quote_id))
        beside = repository.newest_revision(connection, caller.team_id, quote.id)
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
            priced = issuing.price(database, caller, merge_patch(json.loads(quote.received), patch), pilot=pilot)
        except problems.Invalid as problem:  # its pointers lead into the spec, which stands at /spec here
            raise _below(problem, "/spec") from None
        if dropped:
            priced.warn(
                "pilot_dropped", "the spec's step changed, so what the pilot of the superseded quote measured no longer holds", "/spec"
            )
        if beside is not None:  # variants side by side are allowed, and said
            priced.warn(
                "superseded_before",
                f"quote {beside} supersedes the same quote: this one stands beside it and holds nothing of its changes; to build on them "
                "revise that one",
            )
        return _creation(request, caller, priced, supersedes_id=quote.id)

    return idempotency.create(request, caller, key, received, prepare)


def _creation(request: Request, caller: Caller, priced: Priced, supersedes_id: str | None = None) -> Creation:
    """A priced quote, ready to be stored and answered."""
    new = priced.to_store(supersedes_id)
    answer = Answer(201, repository.envelope(new.document, new), {"Location": f"/v1/quotes/{new.id}"})

    def store(connection: Connection) -> Answer:
        repository.add(connection, caller.team_id, [new])
        return answer

    kind = "single" if supersedes_id is None else "revision"
    return Creation(store=store, stored=lambda: request.app.state.metrics.quotes.labels(kind).inc())


def _find(quote: repository.Stored | None) -> repository.Stored:
    if quote is None:
        raise problems.NotFound("There is no such quote")
    return quote


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


def _accepts_json(accept: str | None) -> bool:
    """Whether a client that sends this takes JSON."""
    if accept is None or not accept.strip():
        return True
    for part in accept.split(","):
        media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if media_type in ("*/*", "application/*", documents.JSON) and "q=0" not in parameters:
            return True
    return False


def _matches(header: str | None, tag: str) -> bool:
    """`If-None-Match` (RFC 9110, 13.1.2): any of the tags, weak or not, or `*`."""
    if header is None:
        return False
    return any(part.strip().removeprefix("W/") in (tag, "*") for part in header.split(","))
