"""Teams, API keys and scopes.

A key reads `rq_<lookup>_<secret>`: the first part finds its row, the whole is compared by its SHA-256 in constant time. The
secret has 256 random bits, so a fast hash is enough (a slow one would let anybody burn CPU by sending keys). Only the hash
is stored. `admin` includes every other scope.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, get_args

from fastapi import Depends, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import HTTPBase as HttpScheme
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase
from sqlalchemy import Boolean, Column, Connection, ForeignKey, Index, String, Table, Text, UniqueConstraint, false, select

from .database import Database, UtcDateTime, id_column, metadata
from .identifiers import uuid7
from .problems import Forbidden, Unauthenticated
from .usage import UsageError

log = logging.getLogger(__name__)

Scope = Literal["quotes:read", "quotes:write", "actuals:write", "accuracy:read", "calibrations:write", "plans:run", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)

DEFAULT_TEAM_ID = "00000000-0000-7000-8000-000000000000"
DEFAULT_TEAM = "default"
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
        return authenticate(connection, key)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def authenticate(connection: Connection, key: str) -> Caller | None:
    """The caller of a key, unless it is unknown or revoked."""
    match = re.fullmatch(r"rq_([0-9a-f]{16})_.+", key)
    row = None
    if match:
        row = connection.execute(
            select(api_keys.c.hash, api_keys.c.scopes, api_keys.c.revoked_at, teams.c.id, teams.c.name, api_keys.c.id.label("key_id"))
            .join(teams, teams.c.id == api_keys.c.team_id)
            .where(api_keys.c.lookup == match[1])
        ).one_or_none()
    # Compared even when nothing was found, so that time does not tell which lookups exist.
    same = hmac.compare_digest(_digest(key), row.hash if row else "0" * 64)
    if row is None or not same or row.revoked_at is not None:
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


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is listed; the secret is not stored."""

    id: str
    team: str
    scopes: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None


def list_teams(connection: Connection) -> list[tuple[str, bool]]:
    """Teams by name, and whether they share what they learn."""
    rows = connection.execute(select(teams.c.name, teams.c.shares_learning).order_by(teams.c.name))
    return [(row.name, row.shares_learning) for row in rows]


def share_learning(connection: Connection, team: str, shares: bool) -> bool:
    """A team agrees to share what it learns, or no longer; False where there is no such team."""
    return connection.execute(teams.update().where(teams.c.name == team).values(shares_learning=shares)).rowcount > 0


def create_key(connection: Connection, team: str, scopes: Sequence[str], now: datetime) -> str:
    """Make a key for a team; the answer is the only time it is seen."""
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise UsageError("scopes are " + ", ".join(SCOPES))
    lookup = secrets.token_hex(8)
    key = f"rq_{lookup}_{secrets.token_urlsafe(32)}"
    connection.execute(
        api_keys.insert().values(
            id=uuid7(),
            team_id=ensure_team(connection, team, now),
            lookup=lookup,
            hash=_digest(key),
            scopes=" ".join(sorted(set(scopes))),
            created_at=now,
        )
    )
    return key


def list_keys(connection: Connection, team: str | None = None) -> list[Key]:
    """All keys, oldest first, or those of one team."""
    query = select(api_keys.c.id, teams.c.name, api_keys.c.scopes, api_keys.c.created_at, api_keys.c.revoked_at).join(teams)
    if team is not None:
        query = query.where(teams.c.name == team)
    return [
        Key(*row[:2], tuple(row[2].split()), *row[3:]) for row in connection.execute(query.order_by(api_keys.c.created_at, api_keys.c.id))
    ]


def revoke_key(connection: Connection, key_id: str, now: datetime) -> bool:
    """Revoke a key by its id, or by the key itself; whether there was one to revoke."""
    # A key that was mistyped, or guessed from another's first part, is nobody's: the whole is compared.
    where = api_keys.c.hash == _digest(key_id) if key_id.startswith("rq_") else api_keys.c.id == key_id
    done = connection.execute(api_keys.update().where(where, api_keys.c.revoked_at.is_(None)).values(revoked_at=now))
    return done.rowcount > 0
