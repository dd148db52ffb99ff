"""Sums and shares of amounts, spared where one side changes nothing: most terms are nothing in most runs."""

from __future__ import annotations

from ..numeric import Number, maximum


def add(first: Number, second: Number) -> Number:
    """The sum, spared where one side is a plain zero."""
    if type(first) is float:
        return first + second if first else second  # between plain numbers a sum costs less than a look at the other
    return first if type(second) is float and second == 0.0 else first + second


def larger(first: Number, second: Number) -> Number:
    """The larger of two sizes, spared where the first is a plain zero: no size is negative."""
    return second if type(first) is float and first == 0.0 else maximum(first, second)


def split(amount: Number, ranks: Number) -> Number:
    """An amount divided over ranks, spared where there is one."""
    return amount if type(ranks) is float and ranks == 1.0 else amount / ranks


def divided(total: Number, experts: Number, over: Number, expert_over: Number) -> Number:
    """An amount over the ranks that sharding divides it by: experts, a part of it, have ranks of their own."""
    if type(experts) is float and experts == 0.0:
        return split(total, over)
    return split(total - experts, over) + split(experts, expert_over)
