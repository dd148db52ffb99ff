"""A project's ledger from its entries; pure.

Hours of unlike devices are never added, money exists only where the caller gave a rate, and options are compared without
a winner: one is left out of the front only if another is at least as good in every effect and every cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np

Stage = Literal["data_preparation", "generation", "feedback", "training", "validation", "rerun", "human_review"]
Outcome = Literal["completed", "failed", "cancelled", "preempted", "timeout"]
Better = Literal["higher", "lower"]

STAGES: tuple[Stage, ...] = ("data_preparation", "generation", "feedback", "training", "validation", "rerun", "human_review")
UNSPECIFIED = "unspecified"  # device-hours of which the entry does not say the device
AMOUNTS = ("cpu_hours", "human_hours", "tokens", "bytes")
MOST_RIVALS = 50  # that an option is told of
_RESOURCES = {"cpu_hours": "cpu_hour", "human_hours": "human_hour"}
# Metrics that are better when low, unless the caller says otherwise; the table states which way it was read.
_LOWER = ("loss", "perplexity", "ppl", "error", "wer", "cer", "mae", "mse", "rmse", "bits_per_byte", "latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A metric that an option reached."""

    metric: str
    value: float
    better: Better | None = None  # None: as the metric's name suggests


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something the project spent."""

    id: str
    stage: Stage
    outcome: Outcome = "completed"
    final: bool = False
    exploration: bool | None = None  # None: a training run is, the final one too: it was chosen among them
    name: str | None = None
    option: str | None = None  # entries of one option are compared as one
    device: str | None = None
    device_hours: float | None = None
    cpu_hours: float | None = None
    human_hours: float | None = None
    tokens: int | None = None
    bytes: int | None = None
    effects: tuple[Effect, ...] = ()
    measured: bool = False  # from a quote's actuals

    @property
    def explores(self) -> bool:
        """Whether it is one of the runs among which the final one was chosen."""
        return self.stage == "training" if self.exploration is None else self.exploration


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A price that the caller gave."""

    resource: str
    amount: Decimal
    currency: str
    device: str | None = None


@dataclass(slots=True)
class Spent:
    """Amounts added up; None: no entry says anything of it."""

    entries: int = 0
    device_hours: dict[str, float] = field(default_factory=dict)
    cpu_hours: float | None = None
    human_hours: float | None = None
    tokens: int | None = None
    bytes: int | None = None

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        self.entries += 1
        if entry.device_hours is not None:
            device = entry.device or UNSPECIFIED
            self.device_hours[device] = self.device_hours.get(device, 0.0) + entry.device_hours
        for name in AMOUNTS:
            value = getattr(entry, name)
            if value is not None:
                setattr(self, name, (getattr(self, name) or 0) + value)

    def as_json(self) -> dict[str, Any]:
        """By resource."""
        amounts = {name: getattr(self, name) for name in AMOUNTS}
        return {"entries": self.entries, "device_hours": dict(sorted(self.device_hours.items())), **amounts}


def spent(entries: Iterable[Entry]) -> Spent:
    """What entries add up to."""
    total = Spent()
    for entry in entries:
        total.add(entry)
    return total


def ledger(entries: Sequence[Entry], rates: Sequence[Rate] = ()) -> dict[str, Any]:
    """The whole ledger."""
    total = spent(entries)
    final = [entry for entry in entries if entry.final]
    explorations = [entry for entry in entries if entry.explores]
    return {
        "totals": total.as_json(),
        "stages": _by(entries, lambda entry: entry.stage, "stage", STAGES),
        "outcomes": _by(entries, lambda entry: entry.outcome, "outcome", ()),
        "explorations": {
            **spent(explorations).as_json(),
            "unsuccessful": sum(entry.outcome != "completed" for entry in explorations),
            "without_final": spent(entry for entry in explorations if not entry.final).as_json(),
        },
        "final": _final(final, total),
        "money": money(total, rates),
        "options": options(entries, rates),
        "notes": [*_notes(entries, final), *_unused(rates)],
    }


def _by(entries: Sequence[Entry], key: Callable[[Entry], str], name: str, order: Sequence[str]) -> list[dict[str, Any]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    place = {value: index for index, value in enumerate(order)}
    ordered = sorted(groups, key=lambda value: (place.get(value, len(place)), value))
    return [{name: value, **spent(groups[value]).as_json()} for value in ordered]


def _final(final: Sequence[Entry], total: Spent) -> dict[str, Any]:
    """The final run and its share of all that was spent, resource by resource."""
    if not final:
        return {**Spent().as_json(), "share": None, "is_exploration": None, "reason": "no entry is marked final"}
    own = spent(final)
    share: dict[str, Any] = {
        "device_hours": {device: _share(own.device_hours.get(device, 0.0), hours) for device, hours in sorted(total.device_hours.items())}
    }
    share |= {name: _share(getattr(own, name) or 0, getattr(total, name)) for name in AMOUNTS}
    return {**own.as_json(), "share": share, "is_exploration": all(entry.explores for entry in final), "reason": None}


def _share(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None


def money(total: Spent, rates: Sequence[Rate]) -> list[dict[str, Any]]:
    """What was spent in each currency that a rate is given in; null where something spent has no rate."""
    found = []
    for currency in sorted({rate.currency for rate in rates}):
        parts: list[dict[str, Any]] = []
        unpriced: list[str] = []
        whole = Decimal(0)
        for resource, device, amount in _priceable(total):
            rate = _rate(rates, currency, resource, device)
            if rate is None:
                unpriced.append(resource if device is None else f"{resource} of {device}")
                continue
            price = Decimal(repr(amount)) * rate.amount
            whole += price
            parts.append({"resource": resource, "device": device, "quantity": amount, "rate": _plain(rate.amount), "amount": _plain(price)})
        priced = _plain(whole)
        found.append(
            {
                "currency": currency,
                "amount": None if unpriced else priced,
                "priced_amount": priced,
                "parts": parts,
                "reason": "no rate for " + ", ".join(unpriced) if unpriced else None,
            }
        )
    return found


def _priceable(total: Spent) -> Iterable[tuple[str, str | None, float]]:
    for device, hours in sorted(total.device_hours.items()):
        yield "device_hour", device, hours
    for name, resource in _RESOURCES.items():
        amount = getattr(total, name)
        if amount is not None:
            yield resource, None, amount


def _rate(rates: Sequence[Rate], currency: str, resource: str, device: str | None) -> Rate | None:
    """The rate of the device itself, else one given for any device."""
    fitting = [rate for rate in rates if rate.currency == currency and rate.resource == resource]
    exact = [rate for rate in fitting if rate.device is not None and rate.device == device]
    general = [rate for rate in fitting if rate.device is None]
    return next(iter([*exact, *general]), None)


def _plain(amount: Decimal) -> str:
    return format(amount.normalize(), "f")


@dataclass(slots=True)
class _Option:
    name: str
    spent: Spent
    effects: dict[str, float]
    entries: list[str]


def options(entries: Sequence[Entry], rates: Sequence[Rate] = ()) -> dict[str, Any]:
    """Options by effect and cost. ``pareto``: no other option with the same metrics is at least as good and as cheap in all."""
    directions = _directions(entries)
    found: dict[str, _Option] = {}
    judged = {entry.option for entry in entries if entry.option is not None and entry.effects}
    for entry in entries:
        if not entry.effects and entry.option not in judged:
            continue
        key = f"option {entry.option}" if entry.option is not None else f"entry {entry.id}"
        option = found.get(key)
        if option is None:
            option = found[key] = _Option(entry.option or entry.name or entry.id, Spent(), {}, [])
        option.spent.add(entry)
        option.entries.append(entry.id)
        for effect in entry.effects:
            _keep_better(option.effects, effect, directions)
    everything = list(found.values())
    rows = []
    for option, rivals in zip(everything, _rivals(everything, directions), strict=True):
        prices = money(option.spent, rates)
        rows.append(
            {
                "name": option.name,
                "effects": option.effects,
                "cost": {**option.spent.as_json(), "money": {price["currency"]: price["amount"] for price in prices}},
                "pareto": not rivals,
                "dominated_by": rivals,
                "entry_ids": option.entries,
            }
        )
    return {"metrics": [{"metric": name, "better": better} for name, better in sorted(directions.items())], "rows": rows}


def _directions(entries: Sequence[Entry]) -> dict[str, Better]:
    """Which way each metric is better: as said, else as its name suggests."""
    said: dict[str, Better] = {}
    for entry in entries:
        for effect in entry.effects:
            if effect.better is not None:
                said.setdefault(effect.metric, effect.better)
    names = {effect.metric for entry in entries for effect in entry.effects}
    return {name: said.get(name) or suggested(name) for name in names}


def suggested(metric: str) -> Better:
    """Which way a metric is better, by the words of its name."""
    words = metric.lower().replace("-", "_").replace("/", "_").replace(" ", "_").split("_")
    return "lower" if any(word in _LOWER for word in words) or metric.lower() in _LOWER else "higher"


def _keep_better(effects: dict[str, float], effect: Effect, directions: Mapping[str, Better]) -> None:
    before = effects.get(effect.metric)
    better = max if directions[effect.metric] == "higher" else min
    effects[effect.metric] = effect.value if before is None else better(before, effect.value)


def _rivals(everything: Sequence[_Option], directions: Mapping[str, Better]) -> list[list[str]]:
    """For each option the first `MOST_RIVALS` others that are at least as good and as cheap in all, and better or cheaper in something.

    Compared are options with the same metrics of which the same amounts are known: what is not known is not nothing.
    """
    found: list[list[str]] = [[] for _ in everything]
    alike: dict[tuple[frozenset[str], tuple[bool, ...]], list[int]] = {}
    for place, option in enumerate(everything):
        known = tuple(getattr(option.spent, name) is not None for name in AMOUNTS)
        alike.setdefault((frozenset(option.effects), known), []).append(place)
    devices = sorted({device for option in everything for device in option.spent.device_hours})
    for (metrics, _), places in alike.items():
        ordered = sorted(metrics)
        table = np.array([_lower_is_better(everything[place], ordered, devices, directions) for place in places])
        for place, row in zip(places, table, strict=True):
            better = (table <= row).all(axis=1) & (table < row).any(axis=1)
            found[place] = [everything[places[index]].name for index in np.flatnonzero(better)[:MOST_RIVALS]]
    return found


def _lower_is_better(option: _Option, metrics: Sequence[str], devices: Sequence[str], directions: Mapping[str, Better]) -> list[float]:
    """What an option is judged by, effects first, each so that less of it is better."""
    effects = [(-1 if directions[metric] == "higher" else 1) * option.effects[metric] for metric in metrics]
    hours = [option.spent.device_hours.get(device, 0.0) for device in devices]
    return [*effects, *hours, *(float(getattr(option.spent, name) or 0) for name in AMOUNTS)]


def _unused(rates: Sequence[Rate]) -> list[str]:
    """Rates that can price nothing of a ledger."""
    if all(rate.resource != "storage_gib_month" for rate in rates):
        return []
    return ["rates of storage_gib_month price nothing: entries hold bytes, and not for how long they were kept"]


def _notes(entries: Sequence[Entry], final: Sequence[Entry]) -> list[str]:
    notes = []
    if any(entry.device_hours is not None and entry.device is None for entry in entries):
        notes.append("device-hours without a device stand under 'unspecified'; they may mix unlike devices")
    if len({entry.device for entry in entries if entry.device_hours}) > 1:
        notes.append("device-hours are by device kind and not added: an hour of one is not an hour of another")
    if any(entry.exploration is None and entry.explores for entry in final):
        notes.append("the final run counts as one of the explorations; say exploration: false if it was run apart from them")
    if len({entry.name or entry.id for entry in final}) > 1:
        notes.append("several entries are marked final; they are added up")
    return notes
