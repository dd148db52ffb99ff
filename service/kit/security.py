"""Teams, API keys and scopes: who asks, and what they may. Keys are made and managed in the room ``keys``.

A key reads `rq_<lookup>_<secret>`: the first part finds its row, the whole is compared by its SHA-256 in constant time. The
secret has 256 random bits, so a fast hash is enough (a slow one would let anybody burn CPU by sending keys). Only the hash
is stored. `admin` includes every other scope.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal, get_args

from fastapi import Depends, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import HTTPBase as HttpScheme
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase
from sqlalchemy import Boolean, Column, Connection, ForeignKey, Index, String, Table, Text, UniqueConstraint, bindparam, false, select

from . import audit
from .database import Database, UtcDateTime, id_column, metadata
from .identifiers import uuid7
from .problems import Forbidden, Unauthenticated
from .usage import UsageError

log = logging.getLogger(__name__)

Scope = Literal["quotes:read", "quotes:write", "actuals:write", "accuracy:read", "calibrations:write", "plans:run", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)

DEFAULT_TEAM_ID = "00000000-0000-7000-8000-000000000000"
DEFAULT_TEAM = "default"
LOOKUP = "[0-9a-f]{16}"
_TEAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/-]{0,99}")

teams = Table(
    "teams",
    metadata,
    id_column(),
    Column("name", String(100), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("shares_learning", Boolean, nullable=False, server_default=false()),  # gives its measurements to others, and takes theirs
    UniqueConstraint("name"),
)

api_keys = Table(
    "api_keys",
    metadata,
    id_column(),
    Column("team_id", String(36), ForeignKey("teams.id"), nullable=False),
    Column("lookup", String(16), nullable=False),
    Column("hash", String(64), nullable=False),  # SHA-256 of the whole key, in hex
    Column("scopes", Text, nullable=False),  # separated by spaces
    Column("created_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime),
    Column("expires_at", UtcDateTime),  # null: it has no end
    Column("last_used_at", UtcDateTime),  # to the minute: see `key_uses`
    Column("replaces_id", String(36), ForeignKey("api_keys.id")),  # the key in whose place it was made
    UniqueConstraint("lookup"),
    Index(None, "team_id"),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a team, and what its key allows."""

    team_id: str
    team: str
    scopes: frozenset[str]
    key_id: str | None = None  # none where no key is asked for

    def may(self, scope: str) -> bool:
        """Whether the key has the scope."""
        return scope in self.scopes or "admin" in self.scopes


DEFAULT_CALLER = Caller(DEFAULT_TEAM_ID, DEFAULT_TEAM, frozenset(SCOPES))


class _Bearer(SecurityBase):
    """The scheme in the OpenAPI document; the check itself is in `authorize`."""

    def __init__(self) -> None:
        self.scheme_name = "ApiKey"
        self.model = HttpScheme(scheme="bearer", description="A key made by `python -m service keys create`.")

    async def __call__(self, request: Request) -> str | None:
        """The key that was sent, if any."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        return credentials.strip() if scheme.lower() == "bearer" and credentials.strip() else None


_bearer = _Bearer()


async def identify(request: Request) -> Caller:
    """The caller of a valid key; asked before a body is read, so that nobody unknown fills the memory."""
    if not request.app.state.settings.auth_required:
        request.scope["caller"] = DEFAULT_CALLER
        return DEFAULT_CALLER
    known: Caller | None = request.scope.get("caller")
    if known is not None:
        return known
    key = await _bearer(request)
    if key is None:
        raise Unauthenticated("Send `Authorization: Bearer <key>`", headers={"WWW-Authenticate": "Bearer"})
    caller = await run_in_threadpool(_find, request.app.state.database, key)
    if caller is None:
        raise Unauthenticated("The key is not valid", headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
    request.scope["caller"] = caller
    request.app.state.limits.admit(request.scope, key_id=caller.key_id, team_id=caller.team_id)
    if caller.key_id is not None:
        request.app.state.key_uses.note(caller.key_id, datetime.now(UTC))
    return caller


async def authorize(request: Request, scopes: Sequence[str]) -> Caller:
    """The caller, if its key has one of the scopes (or any valid key where none is wanted)."""
    caller = await identify(request)
    if scopes and not any(caller.may(scope) for scope in scopes):
        raise Forbidden("The key needs the scope " + " or ".join(scopes))
    return caller


async def _authorize(request: Request, wanted: SecurityScopes, _: Annotated[str | None, Depends(_bearer)]) -> Caller:
    return await authorize(request, wanted.scopes)


def allow(*scopes: Scope) -> Caller:
    """An endpoint's parameter default: `caller: Caller = allow("quotes:read")`. Several scopes: any of them does."""
    caller: Caller = Security(_authorize, scopes=list(scopes))
    return caller


def _find(database: Database, key: str) -> Caller | None:
    with database.read() as connection:
        return authenticate(connection, key, datetime.now(UTC))


def digest(key: str) -> str:
    """What is stored of a key."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def lookup_of(key: str) -> str | None:
    """The part of a whole key that finds its row; None where the text is no whole key."""
    match = re.fullmatch(rf"rq_({LOOKUP})_.+", key)
    return None if match is None else match[1]


# Asked for every request: building the statement anew takes as long as running it.
_BY_LOOKUP = (
    select(
        api_keys.c.hash,
        api_keys.c.scopes,
        api_keys.c.revoked_at,
        api_keys.c.expires_at,
        api_keys.c.id.label("key_id"),
        teams.c.id,
        teams.c.name,
    )
    .join(teams, teams.c.id == api_keys.c.team_id)
    .where(api_keys.c.lookup == bindparam("lookup"))
)


def authenticate(connection: Connection, key: str, now: datetime) -> Caller | None:
    """The caller of a key, unless it is unknown, revoked or expired."""
    lookup = lookup_of(key)
    row = None if lookup is None else connection.execute(_BY_LOOKUP, {"lookup": lookup}).one_or_none()
    # Compared even when nothing was found, so that time does not tell which lookups exist.
    same = hmac.compare_digest(digest(key), row.hash if row else "0" * 64)
    if row is None or not same or row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
        return None
    return Caller(row.id, row.name, frozenset(row.scopes.split()), row.key_id)


def ensure_team(connection: Connection, name: str, now: datetime) -> str:
    """The id of the team of that name, made if there is none."""
    if not _TEAM_NAME.fullmatch(name):
        raise UsageError("a team's name has 1 to 100 letters, digits, spaces or . _ / -, and begins with a letter or digit")
    found = connection.execute(select(teams.c.id).where(teams.c.name == name)).scalar_one_or_none()
    if found is not None:
        return str(found)
    team_id = uuid7()
    connection.execute(teams.insert().values(id=team_id, name=name, created_at=now))
    return team_id


def list_teams(connection: Connection) -> list[tuple[str, bool]]:
    """Teams by name, and whether they share what they learn."""
    rows = connection.execute(select(teams.c.name, teams.c.shares_learning).order_by(teams.c.name))
    return [(row.name, row.shares_learning) for row in rows]


def share_learning(connection: Connection, team: str, shares: bool, now: datetime) -> bool:
    """A team agrees to share what it learns, or no longer; False where there is no such team."""
    team_id = connection.execute(select(teams.c.id).where(teams.c.name == team)).scalar_one_or_none()
    if team_id is None:
        return False
    connection.execute(teams.update().where(teams.c.id == team_id).values(shares_learning=shares))
    action: audit.Action = "learning.shared" if shares else "learning.unshared"
    audit.record(
        connection,
        [audit.Event(team_id=team_id, key_id=None, action=action, subject=team_id, created_at=now, at_command_line=True)],
    )
    return True
