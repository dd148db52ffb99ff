"""A backtest of a team's own history."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from service.kit.database import Database
from service.kit.problems import Invalid, invalid
from service.kit.security import teams
from service.kit.usage import UsageError
from service.learning import drivers
from service.learning.backtest import Line, replay

from . import history, schemas

MAXIMUM_RUNS = 5000  # the newest; the replay fits corrections again and again


def run(connection: Connection, team_id: str, *, window_days: int | None, code: str | None, now: datetime) -> list[dict[str, Any]]:
    """The lines of a backtest, as the contract has them."""
    if code is not None and code not in drivers.LEARNABLE:
        raise invalid("/code", "nothing is learnt from this item; it is one of " + ", ".join(drivers.LEARNABLE))
    codes = None if code is None else drivers.codes_behind(code)
    known = history.evidence(connection, begin=history.since(window_days, now), team_ids=[team_id], codes=codes, limit=MAXIMUM_RUNS)
    lines = replay(entry.past for entry in known)
    return [as_json(line) for line in lines if code is None or line.code == code]


def of_team(database: Database, team: str, *, window: str | None, code: str | None, now: datetime) -> list[dict[str, Any]]:
    """A backtest for the command line; a bad name is a `UsageError`."""
    if window is not None and re.fullmatch(schemas.WINDOW, window) is None:
        raise UsageError("a window is days or weeks, for example 90d or 8w")
    with database.read() as connection:
        team_id = connection.execute(select(teams.c.id).where(teams.c.name == team)).scalar_one_or_none()
        if team_id is None:
            raise UsageError("there is no such team")
        try:
            return run(connection, team_id, window_days=schemas.days(window), code=code, now=now)
        except Invalid as error:
            raise UsageError(error.detail) from None


def as_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The lines as text: median and ninth-decile error in per cent, bias as a factor."""
    table = [("code", "engine", "runs", "median error", "p90 error", "measured / estimated")]
    for row in rows:
        table.append(
            (
                row["code"],
                row["engine"],
                str(row["n"]),
                f"{row['median_absolute_percentage_error']:.1%}",
                f"{row['p90_absolute_percentage_error']:.1%}",
                f"{math.exp(row['bias']):.3f}",
            )
        )
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table)


def as_json(line: Line) -> dict[str, Any]:
    """One line."""
    return {
        "engine": line.engine,
        "code": line.code,
        **schemas.figures(line.summary),
        "common": None if line.common is None else schemas.figures(line.common),
    }
