"""Reserves and prices: stated priors, given fractions, sums."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimation import cost, reserves
from service.estimation.items import Item, unknown
from service.estimation.run import AblationRun, Rate, Reserves
from service.estimation.warnings import idle_fields

from .whole_jobs import assert_adds_up, by_code, run

HOURS = Item(code="device_hours.run", section="time", quantity="device_hours", expected=1000.0, low=900.0, high=1200.0, formula="")


def test_rerun_prior_is_the_median_of_what_was_published() -> None:
    """Kalos 8.0 %, Helios 9.3 %, Seren 12.4 %, Philly 38.6 % of device time failed; SmolLM3 lost 1 of 11 T tokens, DeepSeek-V3 nothing."""
    item = reserves.rerun(run(), HOURS)
    assert item.basis == "prior"
    # Median of the six between 9 and 9.3 % of all time: about a tenth on top of what succeeds.
    assert item.expected == pytest.approx(100, abs=5)
    assert 0 < (item.low or 0) < 80 and 200 < (item.high or 0) < 700


def test_given_rerun_fraction() -> None:
    """As the caller says, its interval that of the run."""
    item = reserves.rerun(run(reserves=Reserves(rerun_fraction=0.25)), HOURS)
    assert (item.expected, item.low, item.high, item.basis) == (250, 225, 300, "given")


def test_ablations_by_kind() -> None:
    """Small runs add up by kind; the caller's names become codes."""
    small = (
        AblationRun(name="lr sweep", kind="Learning rate", count=10, device_hours=2),
        AblationRun(name="lr again", kind="learning-rate", count=1, device_hours=5),
        AblationRun(name="mix", kind="data mix", count=3, device_hours=8),
    )
    items = reserves.ablation(run(reserves=Reserves(ablation_runs=small, ablation_fraction=0.05)), HOURS)
    found = by_code(items)
    assert found["device_hours.ablation_learning_rate"].expected == 25
    assert found["device_hours.ablation"].expected == 50 + 25 + 24
    assert_adds_up(items)


def test_no_ablations_is_nothing_and_says_so() -> None:
    """Zero by the caller's silence, with what others spent."""
    (item,) = reserves.ablation(run(), HOURS)
    assert item.expected == 0 and "no ablation" in item.assumptions[0]


def test_budget_of_an_unknown_run_is_unknown() -> None:
    """Fractions of nothing known are not known."""
    blind = unknown("device_hours.run", "time", "device_hours", "no hardware is given")
    rerun = reserves.rerun(run(), blind)
    total = reserves.budget(blind, [rerun])
    assert rerun.expected is None and total.expected is None and "no hardware" in (total.reason or "")


def priced(rates: tuple[Rate, ...], **amounts: float | None) -> dict[str, Item]:
    """Cost items for amounts by code (dots as double underscores)."""
    items: dict[str, Item] = {}
    for name, value in amounts.items():
        code = name.replace("__", ".")
        items[code] = (
            unknown(code, "time", "x", "not known here")
            if value is None
            else Item(code=code, section="time", quantity="x", expected=value, formula="")
        )
    result = cost.items(run(rates=rates), items.get)
    assert_adds_up(result)
    return by_code(result)


def test_prices_are_exact_decimals() -> None:
    """0.1 and 0.2 in a currency are not 0.30000000000000004; two currencies are two totals."""
    rates = (
        Rate(resource="device_hour", amount="2.10", currency="USD", device="h100-sxm-80gb", source="contract 7", date="2026-11-01"),
        Rate(resource="human_hour", amount="31.50", currency="EUR"),
        Rate(resource="cpu_hour", amount="0.04", currency="USD"),
    )
    items = priced(rates, device_hours__total=507_457.0, human_hours__review=12.0, cpu_hours__tools=30.0)
    assert items["cost.device_hour_usd"].expected == float(Decimal("2.10") * 507457)
    assert items["cost.total_usd"].expected == pytest.approx(1_065_659.7 + 1.2)
    assert items["cost.total_eur"].expected == 378
    assert "contract 7" in items["cost.device_hour_usd"].assumptions[1]


def test_rate_of_another_device_is_not_applied() -> None:
    """Hours of unlike devices are not exchanged, and the rate is not silently dropped."""
    items = priced((Rate(resource="device_hour", amount="1", currency="USD", device="a100-sxm-80gb"),), device_hours__total=10.0)
    assert items["cost.device_hour_usd"].expected is None
    assert "unlike devices" in (items["cost.total_usd"].reason or "")


def rate(amount: str, device: str | None, currency: str = "USD") -> Rate:
    """A price of a device-hour."""
    return Rate(resource="device_hour", amount=amount, currency=currency, device=device)


@pytest.mark.parametrize(
    ("rates", "total"),
    [
        ((rate("3", "h100-sxm-80gb"), rate("1", "a100-sxm-80gb")), 30.0),  # a price list: the run's device decides
        ((rate("2", None), rate("3", "h100-sxm-80gb")), 30.0),  # its own price, not both added up
        ((rate("2", None), rate("1", "a100-sxm-80gb")), 20.0),  # any device's where there is none of its own
        ((rate("3", "h100-sxm-80gb"), rate("0.5", "h100-sxm-80gb")), 35.0),  # two prices of one thing are its price and a surcharge
        ((rate("1", "a100-sxm-80gb"), rate("1", "b200-sxm-192gb")), None),  # none applies: not known, not free
        ((rate("2", None), rate("1", "a100-sxm-80gb", "EUR")), 20.0),  # each currency for itself
    ],
)
def test_an_hour_has_one_price(rates: tuple[Rate, ...], total: float | None) -> None:
    """Ten hours on H100."""
    assert priced(rates, device_hours__total=10.0)["cost.total_usd"].expected == total


def test_rates_that_price_nothing_are_said() -> None:
    """By their pointers."""
    rates = (rate("2", None), rate("3", "h100-sxm-80gb"), Rate(resource="cpu_hour", amount="1", currency="USD", device="h100-sxm-80gb"))
    assert [warning.pointer for warning in idle_fields.warnings(run(rates=rates), None)] == ["/rates/0", "/rates/2/device"]
    assert not idle_fields.warnings(run(rates=(rate("1", "a100-sxm-80gb"),)), None)  # null with a reason says it already


def test_storage_is_priced_by_the_month_that_the_run_takes() -> None:
    """A TiB for half a mean month at 0.02 a GiB and month."""
    rates = (Rate(resource="storage_gib_month", amount="0.02", currency="USD"),)
    items = priced(rates, storage__total=1024.0**4, time__wall_clock=30.4375 * 43200)
    assert items["cost.storage_gib_month_usd"].expected == pytest.approx(1024 * 0.02 / 2)


def test_unknown_amounts_have_no_price() -> None:
    """Null with the amount's own reason; nothing declared is said too."""
    items = priced(
        (Rate(resource="device_hour", amount="1", currency="USD"), Rate(resource="human_hour", amount="1", currency="USD")),
        device_hours__total=None,
    )
    assert items["cost.device_hour_usd"].expected is None and "not known here" in (items["cost.device_hour_usd"].reason or "")
    assert "declares no human hours" in (items["cost.human_hour_usd"].reason or "")


def test_no_rates_no_prices() -> None:
    """Prices come from the caller alone."""
    assert cost.items(run(), lambda _: None) == []


@given(hours=st.floats(0, 1e12), cents=st.integers(0, 10**9))
def test_price_is_the_rounded_product(hours: float, cents: int) -> None:
    """Whatever the amount, the price is the exact product rounded to a millionth."""
    amount = f"{cents / 100:.2f}"
    items = priced((Rate(resource="device_hour", amount=amount, currency="USD"),), device_hours__total=hours)
    exact = Decimal(amount) * Decimal(hours)
    assert abs(Decimal(items["cost.device_hour_usd"].expected or 0) - exact) <= Decimal("0.000001") + abs(exact) * Decimal("1e-15")


def test_what_hangs_on_the_run_is_off_with_it() -> None:
    """Half of the run for reruns and as much again for ablations: 0.9 to 1.2 times the run is 0.9 to 1.2 times all of it."""
    one = run(reserves=Reserves(rerun_fraction=0.5, ablation_fraction=1.0))
    small = reserves.ablation(one, HOURS)[0]
    assert (small.low, small.expected, small.high) == (900, 1000, 1200)
    total = reserves.budget(HOURS, [small, reserves.rerun(one, HOURS)])
    assert (total.expected, total.low, total.high) == (2500, pytest.approx(2250), pytest.approx(3000))


def test_the_prior_of_reruns_errs_on_its_own() -> None:
    """Distances to the bounds add up as root sums of squares."""
    again = reserves.rerun(run(), HOURS)
    total = reserves.budget(HOURS, [again])
    assert total.high == pytest.approx(1000 + again.expected + (200**2 + (again.high - again.expected) ** 2) ** 0.5)


@pytest.mark.parametrize(("decoded", "high"), [(False, 300.0), (True, (200.0**2 + 100.0**2) ** 0.5)])
def test_passes_at_the_runs_pace_are_off_with_it(decoded: bool, high: float) -> None:
    """Decoding takes a pace of its own."""
    passes = Item(
        code="device_hours.generation", section="reserves", quantity="device_hours", expected=500.0, low=450.0, high=600.0, formula=""
    )
    total = reserves.budget(HOURS, [passes], decoded=decoded)
    assert total.high == pytest.approx(1500 + high)
