"""Error statistics of quotes against measurements; pure.

Everything starts from the log ratio ln(measured / estimated): it is symmetric (twice too high and twice too low weigh
the same), adds over factors and has no unbounded side. Some codes are rates (``is_rate``): a rate that is 10 % too high is a
time that is 1/1.1 too low, so their errors are taken after both sides are inverted; what is left is the log ratio of a *cost*
(time, bytes, hours: ``cost_log_ratio``). *Bias* is the median of log ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WILSON_Z = 1.959963984540054  # two-sided 95 % of the normal distribution
RATE_PREFIXES = ("throughput.",)


def is_rate(code: str) -> bool:
    """Whether the item is a rate, whose errors are taken after inversion."""
    return code.startswith(RATE_PREFIXES)


def cost_log_ratio(code: str, log_ratio: float) -> float:
    """The log ratio of the time, bytes or hours behind an item: a rate's with its sign turned."""
    return -log_ratio if is_rate(code) else log_ratio


def percentage_error(cost_ratio: float) -> float:
    """|estimated / measured - 1| as a fraction, from the log ratio of a cost (see ``cost_log_ratio``)."""
    try:
        return abs(math.expm1(-cost_ratio))
    except OverflowError:
        return math.inf


def quantile(ordered: Sequence[float], probability: float) -> float:
    """The quantile of sorted values, linear between order statistics (numpy's default)."""
    position = probability * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def wilson(successes: int, trials: int, z: float = WILSON_Z) -> tuple[float, float]:
    """Wilson's score interval of a share (E. B. Wilson, JASA 22, 1927); 95 % by default."""
    share = successes / trials
    spread = z * z / trials
    centre = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    return max(0.0, (centre - half) / (1 + spread)), min(1.0, (centre + half) / (1 + spread))


def pinball(value: float, bound: float, probability: float) -> float:
    """The pinball loss of a quoted quantile: what a proper score charges for it."""
    return (value - bound) * (probability if value >= bound else probability - 1)


def interval_loss(log_ratio: float, log_low: float, log_high: float, coverage: float) -> float:
    """Mean pinball loss of both ends of an interval, in logs relative to the estimate.

    Logs make runs of unlike size comparable: 0.1 is about ten per cent of the quantity.
    """
    tail = (1 - coverage) / 2
    return (pinball(log_ratio, log_low, tail) + pinball(log_ratio, log_high, 1 - tail)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What measuring a run says of one item of its quote: how far off it was, and whether its interval held."""

    code: str
    log_ratio: float  # ln(measured / estimated)
    within: bool | None = None  # None: the quote gave no interval
    loss: float | None = None  # of the interval (``interval_loss``)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A row of accuracy figures; errors are fractions."""

    n: int
    bias: float
    median_absolute_percentage_error: float
    p90_absolute_percentage_error: float
    interval_coverage: float | None
    coverage_low: float | None
    coverage_high: float | None
    pinball_loss: float | None


def summarise(verdicts: Iterable[Verdict]) -> Summary | None:
    """The figures of a group of verdicts of one code, exactly; None for an empty group."""
    rows = list(verdicts)
    if not rows:
        return None
    ratios = sorted(row.log_ratio for row in rows)
    errors = sorted(percentage_error(cost_log_ratio(row.code, row.log_ratio)) for row in rows)
    return Summary(
        n=len(rows),
        bias=quantile(ratios, 0.5),
        median_absolute_percentage_error=quantile(errors, 0.5),
        p90_absolute_percentage_error=quantile(errors, 0.9),
        **coverage_figures(
            judged=sum(row.within is not None for row in rows),
            within=sum(row.within is True for row in rows),
            losses=sum(row.loss is not None for row in rows),
            loss_sum=math.fsum(row.loss for row in rows if row.loss is not None),
        ),
    )


def coverage_figures(*, judged: int, within: int, losses: int, loss_sum: float) -> dict[str, float | None]:
    """Interval coverage with its own interval, and the mean loss; None where no quote gave an interval."""
    low, high = wilson(within, judged) if judged else (None, None)
    return {
        "interval_coverage": within / judged if judged else None,
        "coverage_low": low,
        "coverage_high": high,
        "pinball_loss": loss_sum / losses if losses else None,
    }
