"""A team's data over HTTP, for its admins."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from service.kit import api
from service.kit.problems import invalid_parameter
from service.kit.security import Caller, allow

from . import export

router = APIRouter(tags=["keys"])


@router.get(
    "/export",
    summary="Take out what the team has",
    response_class=Response,
    responses={
        200: {
            "description": "JSON lines, each with its `kind` and the columns of its row; or CSV of one kind. A cut connection is no end.",
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
            },
        }
    },
)
def export_team(
    request: Request,
    format: Annotated[export.Format, Query(description="`jsonl`, or `csv` of one `kind`.")] = "jsonl",
    kind: Annotated[export.Kind | None, Query(description="One kind alone; left out: all of them, one after the other.")] = None,
    caller: Caller = allow("admin"),
) -> Response:
    """Quotes, measurements, calibrations, projects and ledger entries, oldest first, as they are up to now. Streamed: any size."""
    if format == "csv" and kind is None:
        raise invalid_parameter("kind", "each kind has columns of its own: a CSV is of one of " + ", ".join(export.KINDS))
    kinds = export.KINDS if kind is None else (kind,)
    pieces = export.export(api.database(request), caller.team_id, kinds, format, datetime.now(UTC))
    first = next(pieces, b"")  # a database that is away is said before the answer has begun
    disposition = {"Content-Disposition": f'attachment; filename="runquote-{kind or "export"}.{format}"'}
    return StreamingResponse(chain([first], pieces), headers=disposition, media_type=export.MEDIA_TYPES[format])
