"""The audit over HTTP, for the admins of a team."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from service.kit import api, audit, documents, paging
from service.kit.documents import Moment
from service.kit.security import Caller, allow

from .schemas import AuditPage

router = APIRouter(prefix="/audit", tags=["keys"])


@router.get(
    "",
    summary="Who did what",
    responses=api.gives(200, AuditPage, "A page, newest first.", headers={"Link": 'The next page, `rel="next"`.'}),
)
def list_audit_events(
    request: Request,
    action: Annotated[audit.Action | None, Query(description="One kind of act alone.")] = None,
    key_id: Annotated[str | None, Query(max_length=36, description="What was done with this key.")] = None,
    subject: Annotated[str | None, Query(max_length=100, description="What was done to this: an id, or a calibration's version.")] = None,
    created_after: Annotated[Moment | None, Query(description="Later than this moment.")] = None,
    created_before: Annotated[Moment | None, Query(description="Earlier than this moment.")] = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
    caller: Caller = allow("admin"),
) -> Response:
    """Who quoted, revised, recorded, calibrated, opened projects, made or revoked keys; every filter that is given must hold."""
    wanted = audit.Filter(action=action, key_id=key_id, subject=subject, created_after=created_after, created_before=created_before)
    position = paging.decode(cursor)
    with api.database(request).read() as connection:
        rows, following = audit.page(connection, caller.team_id, wanted, position, limit)
    items = [{**asdict(row), "created_at": documents.timestamp(row.created_at)} for row in rows]
    content = {"items": items, "next_cursor": following}
    return Response(documents.dump(content), media_type=documents.JSON, headers=paging.link(request, following))
