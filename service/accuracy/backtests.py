"""A backtest of a team's own history."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from service.kit.problems import invalid

from . import history, learning
from .backtest import Line, replay
from .statistics import Summary

MAXIMUM_RUNS = 5000  # the newest; the replay fits corrections again and again


def run(connection: Connection, team_id: str, *, window_days: int | None, code: str | None, now: datetime) -> list[dict[str, Any]]:
    """The lines of a backtest, as the contract has them."""
    if code is not None and code not in learning.LEARNABLE:
        raise invalid("/code", "nothing is learnt from this item; it is one of " + ", ".join(learning.LEARNABLE))
    codes = None if code is None else learning.codes_behind(code)
    known = history.evidence(connection, begin=history.since(window_days, now), team_id=team_id, codes=codes, limit=MAXIMUM_RUNS)
    lines = replay(entry.past for entry in known)
    return [as_json(line) for line in lines if code is None or line.code == code]


def as_json(line: Line) -> dict[str, Any]:
    """One line."""
    return {
        "engine": line.engine,
        "code": line.code,
        **figures(line.summary),
        "common": None if line.common is None else figures(line.common),
    }


def figures(summary: Summary) -> dict[str, Any]:
    """The figures that every table of errors has."""
    return {
        "n": summary.n,
        "bias": summary.bias,
        "median_absolute_percentage_error": summary.median_absolute_percentage_error,
        "p90_absolute_percentage_error": summary.p90_absolute_percentage_error,
    }
