"""The saving interval that was chosen beside the optimum, and what each costs, as items."""

from __future__ import annotations

from .items import Item, unknown
from .job_parts import Cadence, Restarts, failure_share


def items(plan: Cadence, lost: Restarts) -> list[Item]:
    """The chosen saving interval beside the optimum, and what each costs."""
    infinite = plan.mean_time_between_interruptions == float("inf")
    result = [
        Item(
            code="time.checkpoint_interval",
            section="time",
            quantity="seconds",
            expected=plan.interval,
            formula=plan.chosen,
            assumptions=(f"{plan.saves:.6g} saves in the run",),
        ),
        Item(
            code="reserve.interruptions",
            section="reserves",
            quantity="count",
            expected=lost.interruptions.expected,
            low=lost.interruptions.low,
            high=lost.interruptions.high,
            formula="rate x devices x busy hours",
            basis=lost.hardware.basis,
            assumptions=lost.hardware.assumptions[:1],
        ),
    ]
    if infinite:
        reason = "no interruptions are expected: saving less often is always better"
        result.append(
            unknown(
                "time.checkpoint_interval_optimum",
                "time",
                "seconds",
                reason,
                formula="sqrt(2 x M x C)",
            )
        )
        return result
    result.append(
        Item(
            code="time.checkpoint_interval_optimum",
            section="time",
            quantity="seconds",
            expected=plan.optimum,
            formula="sqrt(2 x M x C), the whole run where that is longer (Young 1974, Daly 2006)",
            assumptions=(f"M = {plan.mean_time_between_interruptions:.4g} s between interruptions, C = {plan.save.expected:.4g} s a save",),
        )
    )
    for code, interval in (
        ("reserve.failure_fraction", plan.interval),
        ("reserve.failure_fraction_at_optimum", plan.optimum),
    ):
        result.append(
            Item(
                code=code,
                section="reserves",
                quantity="fraction",
                expected=failure_share(plan, interval),
                formula="C/T + (T/2 + R)/M, first order",
                basis=lost.hardware.basis,
                assumptions=(f"T = {interval:.4g} s, R = {plan.restart.expected:.4g} s to detect, restart and load",),
            )
        )
    return result
