"""The command `keys`: for who runs the service, keys of every team."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from service.kit import migration
from service.kit.database import Database
from service.kit.problems import Conflict
from service.kit.security import SCOPES
from service.kit.usage import UsageError

from . import repository
from .repository import AT_COMMAND_LINE, duration

OpenDatabase = Callable[[argparse.Namespace], Database]

_NAMED = "the key's id, what it begins with (`rq_` and 16 digits), or the key itself"


def add(commands: Any, open_database: OpenDatabase) -> None:
    """Add the command to the parser's."""
    keys = commands.add_parser("keys", help="make, list, rotate and revoke API keys", description="API keys of teams.")
    actions = keys.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Callable[[argparse.Namespace, Database], int], told: str, description: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(name, help=told, description=description)
        parser.set_defaults(run=lambda options: _with(open_database(options), options, run))
        return parser

    create = action("create", _create, "make a key", "Make a key. It is printed once, alone, on stdout.")
    create.add_argument("--team", required=True, help="the team it belongs to; made if there is none of that name")
    create.add_argument("--scope", action="append", required=True, dest="scopes", metavar="SCOPE", help=f"{', '.join(SCOPES)}; repeatable")
    create.add_argument("--expires", metavar="DURATION", help="hours, days or weeks until it stops, for example 90d (default: never)")

    told = "List keys, one a line: id, team, scopes, created, revoked, expires, last used, what it begins with, the key it replaces."
    listing = action("list", _list, "list keys", told)
    listing.add_argument("--team", help="of one team only")

    rotate = action("rotate", _rotate, "replace a key", "Make a key in the place of another, which works on for a while.")
    rotate.add_argument("key", metavar="KEY", help=_NAMED)
    rotate.add_argument("--overlap", default="24h", metavar="DURATION", help="for how long the old key still works (default: 24h)")
    rotate.add_argument("--expires", metavar="DURATION", help="until the new key stops (default: as long as the old one was made for)")

    revoke = action("revoke", _revoke, "revoke a key", "Revoke a key; it stops working at once.")
    revoke.add_argument("key", metavar="KEY", help=_NAMED)


def _with(database: Database, options: argparse.Namespace, run: Callable[[argparse.Namespace, Database], int]) -> int:
    try:
        return run(options, database)
    finally:
        database.close()


def _create(options: argparse.Namespace, database: Database) -> int:
    expires_in = None if options.expires is None else duration(options.expires)
    migration.upgrade(database.url)
    with database.write() as work:
        made = repository.create_key(work.connection, options.team, options.scopes, datetime.now(UTC), expires_in=expires_in)
        work.commit()
    print(made)
    return 0


def _list(options: argparse.Namespace, database: Database) -> int:
    with database.read() as connection:
        for key in repository.list_keys(connection, options.team):
            moments = [_moment(moment) for moment in (key.created_at, key.revoked_at, key.expires_at, key.last_used_at)]
            print(key.id, key.team, ",".join(key.scopes), *moments, f"rq_{key.lookup}", key.replaces_id or "-", sep="\t")
    return 0


def _moment(moment: datetime | None) -> str:
    return "-" if moment is None else moment.isoformat(timespec="seconds")


def _rotate(options: argparse.Namespace, database: Database) -> int:
    overlap = duration(options.overlap)
    expires_in = None if options.expires is None else duration(options.expires)
    with database.write() as work:
        old = repository.named(work.connection, options.key)
        if old is None:
            raise UsageError("no such key")
        try:
            made, _ = repository.rotate(work.connection, old, datetime.now(UTC), overlap=overlap, expires_in=expires_in, by=AT_COMMAND_LINE)
        except Conflict as problem:
            raise UsageError(problem.detail) from None
        work.commit()
    print(made)
    return 0


def _revoke(options: argparse.Namespace, database: Database) -> int:
    with database.write() as work:
        key = repository.named(work.connection, options.key)
        revoked = key is not None and repository.revoke(work.connection, key, datetime.now(UTC), by=AT_COMMAND_LINE)
        work.commit()
    if not revoked:
        print("runquote: no such key, or it was revoked before", file=sys.stderr)
        return 1
    return 0
