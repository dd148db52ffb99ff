"""Money, only at rates that the caller gave: decimal arithmetic, a sum per currency, nothing converted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

from .item_sums import whole
from .items import Item, unknown
from .run import Rate, Run

GIB = 1024**3
SECONDS_PER_MONTH = 30.4375 * 86400  # a twelfth of a Julian year

Lookup = Callable[[str], Item | None]


@dataclass(frozen=True, slots=True)
class _Amount:
    """What a rate is multiplied with."""

    expected: float
    low: float | None
    high: float | None
    plain: float | None  # of the formulas alone, where corrections moved it
    words: str


def applied(run: Run) -> list[Rate]:
    """The rates that price this run: of a price list of several devices the run's own, else the one for any device.

    Where a currency has neither, its rates of other devices stay: what they would price is then not known, never free.
    """
    own = None if run.hardware is None else run.hardware.device.name
    chosen = []
    for rate in run.rates:
        if rate.resource != "device_hour" or own is None or rate.device == own:
            chosen.append(rate)
            continue
        rivals = [other.device for other in run.rates if (other.resource, other.currency.upper()) == ("device_hour", rate.currency.upper())]
        if own not in rivals and (rate.device is None or None not in rivals):
            chosen.append(rate)
    return chosen


def items(run: Run, item: Lookup) -> list[Item]:
    """``cost.*``: a rate times its amount for every rate that applies, and a total for every currency."""
    result: list[Item] = []
    by_currency: dict[str, list[Item]] = {}
    used: dict[str, int] = {}
    for rate in applied(run):
        currency = rate.currency.upper()
        code = f"cost.{rate.resource}_{currency.lower()}"
        used[code] = used.get(code, 0) + 1
        if used[code] > 1:  # several rates of one resource: each is an item of its own
            code = f"{code}_{used[code]}"
        parent = f"cost.total_{currency.lower()}"
        priced = _priced(code, parent, run, rate, item)
        by_currency.setdefault(currency, []).append(priced)
        result.append(priced)
    for currency, parts in by_currency.items():
        code = f"cost.total_{currency.lower()}"
        result.append(
            whole(
                code,
                "cost",
                f"money:{currency}",
                parts,
                assumptions=("prices as the caller gave them; no currency is converted",),
            )
        )
    return result


def _priced(code: str, parent: str, run: Run, rate: Rate, item: Lookup) -> Item:
    quantity = f"money:{rate.currency.upper()}"
    amount = _amount(run, rate, item)
    formula = f"{rate.amount} {rate.currency} per {rate.resource} x amount"
    if isinstance(amount, str):
        return unknown(code, "cost", quantity, amount, formula=formula, parent=parent)
    origin = f"rate of {rate.date or 'no date'}, source: {rate.source or 'not given'}"
    return Item(
        code=code,
        section="cost",
        quantity=quantity,
        expected=_times(rate.amount, amount.expected),
        low=None if amount.low is None else _times(rate.amount, amount.low),
        high=None if amount.high is None else _times(rate.amount, amount.high),
        formula=formula,
        basis="given",
        assumptions=(amount.words, origin),
        parent=parent,
        uncalibrated=None if amount.plain is None else _times(rate.amount, amount.plain),
    )


def _times(rate: str, amount: float) -> float:
    """Rate times amount, rounded once at the end to a millionth."""
    if amount != amount:
        return amount  # NaN: the formulas alone give none
    with localcontext() as context:
        context.prec = 200
        return float((Decimal(rate) * Decimal(amount)).quantize(Decimal("0.000001")))


def _amount(run: Run, rate: Rate, item: Lookup) -> _Amount | str:
    """What the rate prices, or why that is not known."""
    if rate.resource == "device_hour":
        own = None if run.hardware is None else run.hardware.device.name
        if own is None:
            return "no hardware is given"
        if rate.device is not None and rate.device != own:
            return f"the rate is for {rate.device} and the run is on {own}: hours of unlike devices are not exchanged"
        return _of(item("device_hours.total"), "device_hours.total")
    if rate.resource == "storage_gib_month":
        stored, clock = item("storage.total"), item("time.wall_clock")
        for one, name in ((stored, "storage.total"), (clock, "time.wall_clock")):
            if one is None or one.expected is None:
                return f"{name} is not known" + (f": {one.reason}" if one is not None and one.reason else "")
        return "storage.total is not known" if stored is None or clock is None else _stored(stored, clock)
    prefix = "cpu_hours." if rate.resource == "cpu_hour" else "human_hours."
    names = ("tools", "tokenization", "data_preparation") if prefix == "cpu_hours." else ("review", "evaluation")
    found = [one for one in (item(prefix + name) for name in names) if one is not None]
    if not found:
        return f"the run declares no {prefix.rstrip('.').replace('_', ' ')}"
    return _of(
        whole(prefix + "total", "reserves", prefix.rstrip("."), found),
        " + ".join(one.code for one in found),
    )


def _stored(stored: Item, clock: Item) -> _Amount:
    """What is stored, in GiB-months of the wall clock."""
    bytes_, seconds = float(stored.expected or 0.0), float(clock.expected or 0.0)
    months = seconds / SECONDS_PER_MONTH
    plain = None
    if stored.uncalibrated is not None or clock.uncalibrated is not None:
        before = bytes_ if stored.uncalibrated is None else stored.uncalibrated
        plain = before / GIB * ((seconds if clock.uncalibrated is None else clock.uncalibrated) / SECONDS_PER_MONTH)
    return _Amount(
        bytes_ / GIB * months,
        None if stored.low is None else stored.low / GIB * months,
        None if stored.high is None else stored.high / GIB * months,
        plain,
        f"storage.total held for the wall clock, {months:.4g} months; what is kept after the run costs on",
    )


def _of(one: Item | None, name: str) -> _Amount | str:
    if one is None:
        return f"{name} is not computed"
    if one.expected is None:
        return one.reason if one.reason and " is not known: " in one.reason else f"{name} is not known: {one.reason}"
    return _Amount(float(one.expected), one.low, one.high, one.uncalibrated, name)
