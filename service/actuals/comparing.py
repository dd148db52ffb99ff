"""The whole answer of a comparison: direct and derived rows, the decomposition, attempts that were lost, what did not count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .comparison import Measured, Row, current, direct_rows, row_of
from .decomposition import decompose, lost_attempts, spec_drift, waits_seconds
from .derived import derived_rows
from .quoted import Quoted

DRIFTED = 0.01  # a difference of steps, tokens or devices by more than this is drift


def compare(quoted: Quoted, measured: Iterable[Measured]) -> dict[str, Any]:
    """Rows in the quote's order of items, what was measured before what follows from it."""
    values = list(measured)
    direct, left_out = direct_rows(quoted, values)
    derived = derived_rows(quoted, direct, values)
    rows = ordered(quoted, [*direct, *derived])
    standing = current(values)
    lost = lost_attempts(standing)
    return {
        "rows": [row.as_json() for row in rows],
        "decomposition": decompose(quoted, rows, values),
        "attempts": {
            "lost": lost["attempts"],
            "lost_device_hours": lost["device_hours"],
            "waits_seconds": waits_seconds(standing),
        },
        "not_counted": left_out,
    }


def ordered(quoted: Quoted, rows: Iterable[Row]) -> list[Row]:
    """In the order of the quote's items; measured before derived, then by source and method."""
    place = {code: index for index, code in enumerate(quoted.items)}
    return sorted(rows, key=lambda r: (place.get(r.code, len(place)), r.code, r.derived, r.source or "", r.method, r.scope or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one group of values says of the quote: the figure that accuracy is kept of."""

    value: float
    log_ratio: float | None  # of a bound: what it is at least
    censored: bool  # the run did not finish: a lower bound
    drift: float | None  # log of the part of the ratio that steps, tokens and devices explain; None where unknown


def observe(quoted: Quoted, group: Sequence[Measured], everything: Sequence[Measured]) -> Observation | None:
    """The observation of one group of current values; None where it cannot be set beside the estimate."""
    row, _ = row_of(quoted, group)
    if row is None:
        return None
    ratio = row.ratio or row.bound_ratio
    return Observation(
        value=row.measured,
        log_ratio=math.log(ratio) if ratio else None,
        censored=row.bound is not None,
        drift=_drift(quoted, row, everything),
    )


def _drift(quoted: Quoted, row: Row, everything: Sequence[Measured]) -> float | None:
    """The log of the spec's share in a whole-run time; 0 for codes that steps and devices do not scale."""
    if not row.code.startswith(("device_hours.", "time.")) or row.code == "time.step":
        return 0.0
    direct, _ = direct_rows(quoted, everything)
    by_code: dict[str, Row] = {}
    for found in direct:
        by_code.setdefault(found.code, found)
    factors = {entry["what"]: entry["factor"] for entry in spec_drift(quoted, by_code, current(everything))}
    work = factors["tokens"] if factors["tokens"] is not None else factors["steps"]
    if row.bound or work is None:
        return None
    devices = 1.0 if row.code.startswith("device_hours.") else factors["devices"] or 1.0
    return math.log(work / devices)
