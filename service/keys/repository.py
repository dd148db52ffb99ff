"""API keys in the database. Only a key's hash is stored: the key itself is in the answer that made it, and nowhere else."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from service.kit import audit, paging
from service.kit.identifiers import uuid7
from service.kit.problems import Conflict
from service.kit.security import LOOKUP, SCOPES, api_keys, digest, ensure_team, lookup_of, teams
from service.kit.usage import UsageError

DURATION = r"^(0|[1-9][0-9]{0,3})[hdw]$"
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def duration(text: str) -> timedelta:
    """Hours, days or weeks: `24h`, `90d`, `8w`."""
    if re.fullmatch(DURATION, text) is None:
        raise UsageError("a duration is hours, days or weeks, for example 24h, 90d or 8w")
    return int(text[:-1]) * _UNITS[text[-1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """Who manages keys, for the audit."""

    key_id: str | None = None
    at_command_line: bool = False


AT_COMMAND_LINE = By(at_command_line=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as it is listed."""

    id: str
    team_id: str
    team: str
    lookup: str  # a key begins with `rq_` and this
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    replaces_id: str | None
    revoked_at: datetime | None

    def works(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


_COLUMNS = ("id", "team_id", "lookup", "scopes", "created_at", "expires_at", "last_used_at", "replaces_id", "revoked_at")


def _selected() -> Select[Any]:
    return select(*(api_keys.c[name] for name in _COLUMNS), teams.c.name.label("team")).join(teams, teams.c.id == api_keys.c.team_id)


def _key(row: Row[Any]) -> Key:
    values = row._asdict()
    return Key(**{**values, "scopes": tuple(values["scopes"].split())})


def create_key(
    connection: Connection,
    team: str,
    scopes: Sequence[str],
    now: datetime,
    *,
    expires_in: timedelta | None = None,
    by: By = AT_COMMAND_LINE,
) -> str:
    """Make a key for the team of a name, which is made if there is none; the answer is the only time the key is seen."""
    made, _ = create(connection, ensure_team(connection, team, now), scopes, now, expires_in=expires_in, by=by)
    return made


def create(
    connection: Connection, team_id: str, scopes: Sequence[str], now: datetime, *, expires_in: timedelta | None, by: By
) -> tuple[str, Key]:
    """Make a key for a team: the key, and how it is listed."""
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise UsageError("scopes are " + ", ".join(SCOPES))
    expires_at = None if expires_in is None else now + expires_in
    made, key = _add(connection, team_id, " ".join(sorted(set(scopes))), now, expires_at, None)
    _record(connection, team_id, "key.created", key.id, now, by)
    return made, key


def rotate(connection: Connection, key: Key, now: datetime, *, overlap: timedelta, expires_in: timedelta | None, by: By) -> tuple[str, Key]:
    """A new key in the place of one that works, which stops after the overlap; the old one must be held.

    Left to itself the new key lives as long as the old one was made for.
    """
    if not key.works(now):
        raise Conflict("the key was revoked or has expired: make a new one")
    if connection.execute(select(api_keys.c.id).where(api_keys.c.replaces_id == key.id)).first() is not None:
        raise Conflict("the key was rotated before: rotate the one that was made in its place")
    if expires_in is None and key.expires_at is not None:
        expires_in = key.expires_at - key.created_at
    made, new = _add(connection, key.team_id, " ".join(key.scopes), now, None if expires_in is None else now + expires_in, key.id)
    ends = now + overlap if key.expires_at is None else min(key.expires_at, now + overlap)
    connection.execute(api_keys.update().where(api_keys.c.id == key.id).values(expires_at=ends))
    _record(connection, key.team_id, "key.rotated", key.id, now, by)
    _record(connection, key.team_id, "key.created", new.id, now, by)
    return made, new


def revoke(connection: Connection, key: Key, now: datetime, *, by: By) -> bool:
    """A key stops working at once; False where it was revoked before."""
    done = connection.execute(api_keys.update().where(api_keys.c.id == key.id, api_keys.c.revoked_at.is_(None)).values(revoked_at=now))
    if done.rowcount:
        _record(connection, key.team_id, "key.revoked", key.id, now, by)
    return done.rowcount > 0


def get(connection: Connection, team_id: str, key_id: str, *, hold: bool = False) -> Key | None:
    """A key of the team; held, whoever else would change it waits."""
    query = _selected().where(api_keys.c.id == key_id, api_keys.c.team_id == team_id)
    row = connection.execute(query.with_for_update(of=api_keys) if hold else query).one_or_none()
    return None if row is None else _key(row)


def named(connection: Connection, name: str) -> Key | None:
    """The key of any team, held, that is named by its id, by what it begins with (`rq_` and 16 digits, or the digits), or whole.

    A whole key whose secret is another one names no key: it must not stop the key whose beginning it has.
    """
    lookup = lookup_of(name)
    whole = lookup is not None
    bare = name.removeprefix("rq_")
    if lookup is None and re.fullmatch(LOOKUP, bare):
        lookup = bare
    where = api_keys.c.lookup == lookup if lookup is not None else api_keys.c.id == name
    row = connection.execute(select(api_keys.c.id, api_keys.c.team_id, api_keys.c.hash).where(where)).one_or_none()
    if row is None or (whole and not hmac.compare_digest(row.hash, digest(name))):
        return None
    return get(connection, row.team_id, row.id, hold=True)


def list_keys(connection: Connection, team: str | None = None) -> list[Key]:
    """All keys, oldest first, or those of one team."""
    query = _selected() if team is None else _selected().where(teams.c.name == team)
    return [_key(row) for row in connection.execute(query.order_by(api_keys.c.created_at, api_keys.c.id))]


def page(connection: Connection, team_id: str, position: paging.Position | None, limit: int) -> tuple[list[Key], str | None]:
    """Keys of a team, newest first, and the cursor of the next page."""
    query = _selected().where(api_keys.c.team_id == team_id)
    rows = connection.execute(paging.after(query, api_keys.c.created_at, api_keys.c.id, position, limit)).all()
    return [_key(row) for row in rows[:limit]], paging.next_cursor(rows, limit)


def _add(
    connection: Connection, team_id: str, scopes: str, now: datetime, expires_at: datetime | None, replaces_id: str | None
) -> tuple[str, Key]:
    lookup = secrets.token_hex(8)
    made = f"rq_{lookup}_{secrets.token_urlsafe(32)}"
    key_id = uuid7()
    connection.execute(
        api_keys.insert().values(
            id=key_id,
            team_id=team_id,
            lookup=lookup,
            hash=digest(made),
            scopes=scopes,
            created_at=now,
            expires_at=expires_at,
            replaces_id=replaces_id,
        )
    )
    found = get(connection, team_id, key_id)
    assert found is not None
    return made, found


def _record(connection: Connection, team_id: str, action: audit.Action, key_id: str, now: datetime, by: By) -> None:
    event = audit.Event(
        team_id=team_id, key_id=by.key_id, action=action, subject=key_id, created_at=now, at_command_line=by.at_command_line
    )
    audit.record(connection, [event])
