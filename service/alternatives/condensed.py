"""Sample lengths in a few bins, where layouts are compared: of a million samples every trial would carry a million rows."""

from __future__ import annotations

from dataclasses import replace

from service.estimation.run import Data

BINS = 64  # the longest sample stays as it is


def condensed(data: Data) -> Data:
    """The data with its samples in ``BINS`` bins of mean length: what ratios of hours need; the longest decides the peak and is kept."""
    rows = data.histogram
    if rows is None or len(rows) <= BINS:
        return data
    ordered = sorted(rows, key=lambda row: row[0] + row[1])
    longest, rest = ordered[-1], ordered[:-1]
    size = -(-len(rest) // (BINS - 1))
    bins = []
    for start in range(0, len(rest), size):
        part = rest[start : start + size]
        count = sum(row[2] for row in part)
        prompt, target = (max(0, round(sum(row[i] * row[2] for row in part) / count)) for i in (0, 1))
        bins.append((prompt, max(target, 0 if prompt else 1), count))
    return replace(data, histogram=(*bins, longest))
