"""The whole answer of a comparison: direct and derived rows, the decomposition, attempts that were lost, what did not count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from .comparison import Row, current, direct_rows, row_of
from .decomposition import decompose, lost_attempts, spec_drift, waits_seconds
from .derived import derived_rows
from .measurement import Measurement, Observation
from .quoted import Quoted


def compare(quoted: Quoted, measured: Iterable[Measurement]) -> dict[str, Any]:
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


def observe(quoted: Quoted, group: Sequence[Measurement]) -> Observation | None:
    """The observation of one group of current values; None where it cannot be set beside the estimate.

    It depends on the group alone, so late and corrected values give what they would have given in order.
    """
    row, _ = row_of(quoted, group)
    if row is None:
        return None
    row = replace(row, measured=row.measured / row.whole_runs)  # repeats of the run: one of them is what was quoted
    ratio = row.ratio or row.bound_ratio
    return Observation(
        value=row.measured,
        log_ratio=math.log(ratio) if ratio else None,
        censored=row.bound is not None,
        spec_drift=_log_spec_drift(quoted, row, group),
    )


def _log_spec_drift(quoted: Quoted, row: Row, group: Sequence[Measurement]) -> float | None:
    """The log of what steps and devices explain of a whole-run time; 0 for codes that they do not scale."""
    if not row.code.startswith(("device_hours.", "time.")) or row.code == "time.step":
        return 0.0
    factors = {entry["what"]: entry["factor"] for entry in spec_drift(quoted, {}, group)}
    if row.bound or factors["steps"] is None:
        return None
    devices = 1.0 if row.code.startswith("device_hours.") else factors["devices"] or 1.0
    return math.log(factors["steps"] / devices)
