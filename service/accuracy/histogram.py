"""Daily histograms of log ratios that merge by addition and take a few hundred bytes; pure.

Buckets grow geometrically by ``GAMMA`` in |t|, where t is the log ratio of a cost c for c >= 0 and 1 - exp(-c) below,
so that both the log ratio and the percentage error |exp(-c) - 1| are known to (GAMMA - 1) / (GAMMA + 1) = 1.96 % of
their value: the one that is not t itself varies more slowly than t on either side. (Relative-error buckets as in
Masson, Rim and Lee, DDSketch, PVLDB 12, 2019.)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

GAMMA = 1.04
SMALLEST = 1e-4  # errors below 0.01 % count as none
BUCKETS = 460  # a side: up to SMALLEST * GAMMA**460, a factor of 6,800 too low or exp(6,800) too high
SIZE = 2 * BUCKETS + 1
_LOG_GAMMA = math.log(GAMMA)
_HEADER = struct.Struct("<HB")  # first bucket, bytes a count
_WIDTHS: dict[int, Any] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4"), 8: np.dtype("<u8")}

Counts = NDArray[np.int64]


def bucket(cost_ratio: float) -> int:
    """The bucket of a cost's log ratio."""
    folded = cost_ratio if cost_ratio >= 0 else math.expm1(min(-cost_ratio, 700.0))
    if folded < SMALLEST:
        return BUCKETS
    index = min(math.floor(math.log(folded / SMALLEST) / _LOG_GAMMA), BUCKETS - 1)
    return BUCKETS + 1 + index if cost_ratio >= 0 else BUCKETS - 1 - index


def _representatives() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log ratio and percentage error that stand for each bucket."""
    lower = SMALLEST * GAMMA ** np.arange(BUCKETS, dtype=float)
    middle = lower * 2 * GAMMA / (1 + GAMMA)  # equal relative distance to both edges
    ratios = np.concatenate([-np.log1p(middle)[::-1], [0.0], middle])
    errors = np.concatenate([middle[::-1], [0.0], -np.expm1(-middle)])
    return ratios, errors


RATIOS, ERRORS = _representatives()
_BY_ERROR = np.argsort(ERRORS, kind="stable")


def count(cost_ratios: Iterable[float]) -> Counts:
    """A histogram of log ratios of costs."""
    counts = np.zeros(SIZE, dtype=np.int64)
    for value in cost_ratios:
        counts[bucket(value)] += 1
    return counts


def pack(counts: Counts) -> bytes:
    """Trimmed to the buckets in use, each count as narrow as the largest allows."""
    used = np.flatnonzero(counts)
    if not len(used):
        return _HEADER.pack(0, 1)
    trimmed = counts[used[0] : used[-1] + 1]
    largest = int(trimmed.max())
    width = next(width for width in _WIDTHS if largest < 1 << (8 * width))
    narrow: bytes = trimmed.astype(_WIDTHS[width]).tobytes()
    return _HEADER.pack(int(used[0]), width) + narrow


def add(blob: bytes, into: Counts) -> None:
    """Add a packed histogram to ``into``."""
    first, width = _HEADER.unpack_from(blob)
    part = np.frombuffer(blob, dtype=_WIDTHS[width], offset=_HEADER.size)
    into[first : first + len(part)] += part


def unpack(blob: bytes) -> Counts:
    """The counts of a packed histogram."""
    counts = np.zeros(SIZE, dtype=np.int64)
    add(blob, counts)
    return counts


def _quantile(values: NDArray[np.float64], counts: Counts, probability: float) -> float:
    cumulative = np.cumsum(counts)
    position = probability * (int(cumulative[-1]) - 1)
    below = math.floor(position)
    first, second = values[np.searchsorted(cumulative, [below + 1, min(below + 2, int(cumulative[-1]))])]
    return float(first + (position - below) * (second - first))


def ratio_quantile(counts: Counts, probability: float) -> float:
    """A quantile of the costs' log ratios."""
    return _quantile(RATIOS, counts, probability)


def error_quantile(counts: Counts, probability: float) -> float:
    """A quantile of the percentage errors |exp(-c) - 1|."""
    return _quantile(ERRORS[_BY_ERROR], counts[_BY_ERROR], probability)
