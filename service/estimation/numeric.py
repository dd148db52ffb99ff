"""Arithmetic that serves one quote (plain floats) and a search (numpy arrays) with the same expression.

Rules that keep both equal to the last bit: use + - * / and these helpers on anything that may be an array; no
logarithms, exponentials or fractional powers of broadcast values (numpy's differ from libm's in the last place);
square roots are exact in both. Counts that may exceed 2**53 are floats before they are divided.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Number = Any  # float, int, or an array of them


def is_array(*values: Any) -> bool:
    """Whether any of the values is an array."""
    for value in values:  # a loop: any() over a generator takes three times as long, and this runs hundreds of times a quote
        if isinstance(value, np.ndarray):
            return True
    return False


def maximum(first: Number, *rest: Number) -> Number:
    """The elementwise maximum."""
    result = first
    for value in rest:
        if isinstance(result, np.ndarray) or isinstance(value, np.ndarray):
            result = np.maximum(result, value)
        else:
            result = value if value > result else result
    return result


def minimum(first: Number, *rest: Number) -> Number:
    """The elementwise minimum."""
    result = first
    for value in rest:
        if isinstance(result, np.ndarray) or isinstance(value, np.ndarray):
            result = np.minimum(result, value)
        else:
            result = value if value < result else result
    return result


def where(condition: Any, yes: Number, no: Number) -> Number:
    """``yes`` where the condition holds, else ``no``; both sides are evaluated."""
    if isinstance(condition, np.ndarray) or isinstance(yes, np.ndarray) or isinstance(no, np.ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def indicator(condition: Any) -> Number:
    """1.0 where the condition holds, else 0.0."""
    return condition.astype(np.float64) if isinstance(condition, np.ndarray) else 1.0 if condition else 0.0


def anywhere(condition: Any) -> bool:
    """Whether a condition holds for any of the values."""
    return bool(condition.any()) if isinstance(condition, np.ndarray) else bool(condition)


def ceil(value: Number) -> Number:
    """Rounded up."""
    return np.ceil(value) if isinstance(value, np.ndarray) else math.ceil(value)


def floor(value: Number) -> Number:
    """Rounded down."""
    return np.floor(value) if isinstance(value, np.ndarray) else math.floor(value)


def ceil_divide(dividend: Number, divisor: Number) -> Number:
    """The quotient rounded up."""
    if is_array(dividend, divisor):
        return np.ceil(np.asarray(dividend) / divisor)
    return -(-dividend // divisor)


def sqrt(value: Number) -> Number:
    """The square root (correctly rounded in libm and numpy alike)."""
    return np.sqrt(value) if isinstance(value, np.ndarray) else math.sqrt(value)
