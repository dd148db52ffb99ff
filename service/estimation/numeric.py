"""Arithmetic that serves one quote (plain floats) and a search (numpy arrays) with the same expression.

Rules that keep both equal to the last bit: use + - * / and these helpers on anything that may be an array; no
logarithms, exponentials or fractional powers of broadcast values (numpy's differ from libm's in the last place);
square roots are exact in both. Counts that may exceed 2**53 are floats before they are divided.
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
import numpy.typing as npt

Number = float | npt.NDArray[np.float64]  # of one quote, or of every layout of a search
Condition = bool | npt.NDArray[np.bool_]


def is_array(*values: object) -> bool:
    """Whether any of the values is an array."""
    for value in values:  # a loop: any() over a generator takes three times as long, and this runs hundreds of times a quote
        if isinstance(value, np.ndarray):
            return True
    return False


@overload
def one(value: None) -> None: ...
@overload
def one(value: Number) -> float: ...
@overload
def one(value: Number | None) -> float | None: ...
def one(value: Number | None) -> float | None:
    """The number of a single quote: what items say. An array has no single number; that is a programming error."""
    if isinstance(value, np.ndarray):
        raise TypeError("an item describes a single quote, not the layouts of a search")
    return value


@overload
def maximum(first: float, *rest: float) -> float: ...
@overload
def maximum(first: Number, *rest: Number) -> Number: ...
def maximum(first: Number, *rest: Number) -> Number:
    """The elementwise maximum."""
    result = first
    for value in rest:
        if isinstance(result, np.ndarray) or isinstance(value, np.ndarray):
            result = np.maximum(result, value)
        else:
            result = value if value > result else result
    return result


@overload
def minimum(first: float, *rest: float) -> float: ...
@overload
def minimum(first: Number, *rest: Number) -> Number: ...
def minimum(first: Number, *rest: Number) -> Number:
    """The elementwise minimum."""
    result = first
    for value in rest:
        if isinstance(result, np.ndarray) or isinstance(value, np.ndarray):
            result = np.minimum(result, value)
        else:
            result = value if value < result else result
    return result


def where(condition: Condition, yes: Number, no: Number) -> Number:
    """``yes`` where the condition holds, else ``no``; both sides are evaluated."""
    if isinstance(condition, np.ndarray) or isinstance(yes, np.ndarray) or isinstance(no, np.ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def indicator(condition: Condition) -> Number:
    """1.0 where the condition holds, else 0.0."""
    return condition.astype(np.float64) if isinstance(condition, np.ndarray) else 1.0 if condition else 0.0


def anywhere(condition: Condition) -> bool:
    """Whether a condition holds for any of the values."""
    return bool(condition.any()) if isinstance(condition, np.ndarray) else bool(condition)


def ceil(value: Number) -> Number:
    """Rounded up."""
    return np.ceil(value) if isinstance(value, np.ndarray) else math.ceil(value)


def floor(value: Number) -> Number:
    """Rounded down."""
    return np.floor(value) if isinstance(value, np.ndarray) else math.floor(value)


@overload
def ceil_divide(dividend: float, divisor: float) -> float: ...
@overload
def ceil_divide(dividend: Number, divisor: Number) -> Number: ...
def ceil_divide(dividend: Number, divisor: Number) -> Number:
    """The quotient rounded up."""
    if is_array(dividend, divisor):
        return np.ceil(np.asarray(dividend) / divisor)
    return -(-dividend // divisor)


@overload
def sqrt(value: float) -> float: ...
@overload
def sqrt(value: Number) -> Number: ...
def sqrt(value: Number) -> Number:
    """The square root (correctly rounded in libm and numpy alike)."""
    return np.sqrt(value) if isinstance(value, np.ndarray) else math.sqrt(value)
