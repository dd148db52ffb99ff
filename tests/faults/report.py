"""Outcomes as the README's table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .scenarios import Outcome

_COLUMNS = (
    "fault",
    "database",
    "workers",
    "times",
    "acknowledged",
    "stored",
    "doubled",
    "lost",
    "given up",
    "5xx",
    "409, 429",
    "cut off",
    "longest wait, s",
    "exit status",
)


def by_status(counted: Counter[int], wanted: Iterable[int]) -> str:
    """For example `503: 12`."""
    return ", ".join(f"{status}: {counted[status]}" for status in sorted(wanted) if counted[status]) or "0"


def table(outcomes: Iterable[Outcome]) -> str:
    """A row for each."""
    rows = [" | ".join(_COLUMNS), "|".join("---" for _ in _COLUMNS)]
    for outcome in outcomes:
        scenario = outcome.scenario
        processes = scenario.workers if scenario.replicas == 1 else f"{scenario.replicas} × {scenario.workers}"
        cells = (
            scenario.name + (" (by RLIMIT_FSIZE)" if outcome.without_disk else ""),
            {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[scenario.database],
            processes,
            f"{outcome.repetitions} ({outcome.broken} broken)" if outcome.broken else outcome.repetitions,
            outcome.acknowledged,
            outcome.stored,
            outcome.doubled,
            outcome.lost,
            outcome.given_up,
            by_status(outcome.refused, (status for status in outcome.refused if status >= 500)),
            by_status(outcome.refused, (status for status in outcome.refused if status < 500)),
            outcome.cut,
            f"{outcome.longest_wait_seconds:.1f}",
            by_status(outcome.exits, outcome.exits) if set(outcome.exits) != {0} else 0,
        )
        rows.append(" | ".join(str(cell) for cell in cells))
    return "\n".join(f"| {row} |" if "---" not in row else f"|{row}|" for row in rows)
