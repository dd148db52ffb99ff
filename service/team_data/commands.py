"""The commands `export` and `delete-team`, for who runs the service."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from service.kit.database import Database
from service.kit.usage import UsageError

from . import deletion
from .export import KINDS, Format, export

OpenDatabase = Callable[[argparse.Namespace], Database]


def add(commands: Any, open_database: OpenDatabase) -> None:
    """Add the commands to the parser's."""
    out = commands.add_parser(
        "export",
        help="write what a team has to a file",
        description="Write a team's quotes, measurements, calibrations, projects and ledger entries, oldest first, to a file.",
    )
    out.add_argument("--team", required=True, help="the team's name")
    out.add_argument("--format", choices=get_args(Format), default="jsonl", help="jsonl, or csv of one kind (default: jsonl)")
    out.add_argument("--kind", choices=KINDS, help="one kind alone (default: all of them)")
    out.add_argument("--out", required=True, type=Path, metavar="FILE", help="the file; it is there once it is whole")
    out.set_defaults(run=lambda options: _with(open_database(options), options, _export))

    delete = commands.add_parser(
        "delete-team",
        help="remove a team with all it has",
        description="Remove a team: its keys, quotes, measurements, calibrations, projects and whatever else is its own. For good.",
    )
    delete.add_argument("--team", required=True, help="the team's name")
    delete.add_argument("--yes", action="store_true", help="do it; without this it is only said what would go")
    delete.set_defaults(run=lambda options: _with(open_database(options), options, _delete))


def _with(database: Database, options: argparse.Namespace, run: Callable[[argparse.Namespace, Database], int]) -> int:
    try:
        return run(options, database)
    finally:
        database.close()


def _team_id(database: Database, name: str) -> str:
    with database.read() as connection:
        team_id = deletion.team_id_of(connection, name)
    if team_id is None:
        raise UsageError("there is no such team")
    return team_id


def _export(options: argparse.Namespace, database: Database) -> int:
    if options.format == "csv" and options.kind is None:
        raise UsageError("each kind has columns of its own: say --kind with --format csv")
    kinds = KINDS if options.kind is None else (options.kind,)
    pieces = export(database, _team_id(database, options.team), kinds, options.format, datetime.now(UTC))
    unfinished: Path = options.out.with_name(options.out.name + ".part")
    try:
        with unfinished.open("wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(options.out)
    except OSError as error:
        raise UsageError(f"{options.out}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return 0


def _delete(options: argparse.Namespace, database: Database) -> int:
    team_id = _team_id(database, options.team)
    if not options.yes:
        with database.read() as connection:
            _print(deletion.count_rows(connection, team_id))
        print("runquote: nothing was removed; say --yes to remove these rows for good", file=sys.stderr)
        return 2
    with database.write() as work:
        gone = deletion.delete_team(work.connection, team_id)
        work.commit()
    _print(gone)
    return 0


def _print(rows: dict[str, int]) -> None:
    for name, count in sorted(rows.items()):
        print(name, count, sep="\t")
