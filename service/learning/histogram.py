"""Daily histograms of log ratios that merge by putting them one after the other; pure.

Let c be the log ratio of a cost, ln(measured / estimated); its percentage error is |exp(-c) - 1|. Buckets grow geometrically
by ``GAMMA`` in |t|, where

    t = c               for c >= 0 (the log ratio)
    t = 1 - exp(-c)     for c < 0 (the percentage error, with its sign)

so that both are known to (GAMMA - 1) / (GAMMA + 1) = 1.96 % of their value: the one that is not t itself varies more slowly
than t on either side. (Relative-error buckets as in Masson, Rim and Lee, DDSketch, PVLDB 12, 2019.)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

GAMMA = 1.04
SMALLEST = 1e-4  # errors below 0.01 % count as none
BUCKETS = 460  # a side: up to SMALLEST * GAMMA**460, a factor of 6,800 too low or exp(6,800) too high
SIZE = 2 * BUCKETS + 1
_LOG_GAMMA = math.log(GAMMA)
LARGEST = 2**16 - 1  # count of one pair

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


def count(cost_ratios: Iterable[float]) -> dict[int, int]:
    """A histogram of log ratios of costs."""
    counts: dict[int, int] = {}
    for value in cost_ratios:
        index = bucket(value)
        counts[index] = counts.get(index, 0) + 1
    return counts


def dense(counts: Mapping[int, int]) -> Counts:
    """The same, as an array over all buckets."""
    row: Counts = add_up([pack(counts)], [0], 1)[0]
    return row


def pack(counts: Mapping[int, int]) -> bytes:
    """Counts by bucket as pairs of 16-bit numbers: bucket, count. A larger count takes several pairs."""
    pairs: list[int] = []
    for index in sorted(counts):
        left = counts[index]
        while left > 0:
            part = min(left, LARGEST)
            pairs += (index, part)
            left -= part
    return struct.pack(f"<{len(pairs)}H", *pairs)


def unpack(blob: bytes) -> dict[int, int]:
    """Counts by bucket."""
    counts: dict[int, int] = {}
    numbers = struct.unpack(f"<{len(blob) // 2}H", blob)
    for index, part in zip(numbers[::2], numbers[1::2], strict=True):
        counts[index] = counts.get(index, 0) + part
    return counts


def add_up(blobs: Sequence[bytes], groups: Sequence[int], size: int) -> Counts:
    """Dense histograms of ``size`` groups from blobs, each of which belongs to a group; one row a group."""
    pairs = np.frombuffer(b"".join(blobs), dtype="<u2").reshape(-1, 2).astype(np.int64)
    rows = np.repeat(np.asarray(groups, dtype=np.int64), [len(blob) // 4 for blob in blobs])
    total = np.bincount(rows * SIZE + pairs[:, 0], weights=pairs[:, 1], minlength=size * SIZE)
    return total.astype(np.int64).reshape(size, SIZE)


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
