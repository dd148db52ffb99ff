"""Quotes over HTTP: those that are there."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from service.kit import api, documents, paging, problems
from service.kit.documents import Moment
from service.kit.security import Caller, allow
from service.specs.load import run_of

from . import evidence, listing, repository
from .evidence import Evidence
from .schemas import Quote, QuotePage

router = APIRouter(prefix="/quotes", tags=["quotes"])


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
                "description": "Only quotes with this label, for example `label.team=search`; repeatable with other keys, "
                f"{paging.MOST_LABELS} of them at most.",
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
    """The team's quotes, newest first; every filter that is given must hold. A page has fewer quotes than `limit` where they are long:
    it ends at 16 MiB."""
    labels = {name.removeprefix("label."): value for name, value in request.query_params.items() if name.startswith("label.")}
    if len(labels) > paging.MOST_LABELS:
        raise problems.invalid_parameter("label.<key>", f"a list is narrowed to {paging.MOST_LABELS} labels at most")
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
        rows, following = listing.page(connection, caller.team_id, wanted, position, limit)
    items = b",".join(row.as_json() for row in rows)
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
        quote = find(connection, caller, quote_id)
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
        quote = find(connection, caller, quote_id)
    return Response(documents.dump(evidence.of(run_of(quote.estimate()["spec"]), limit)), media_type=documents.JSON)


def find(connection: Connection, caller: Caller, quote_id: str) -> repository.Stored:
    """The team's quote; 404 where there is none."""
    quote = repository.get(connection, caller.team_id, quote_id)
    if quote is None:
        raise problems.NotFound("There is no such quote")
    return quote


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
