"""Speed described: seconds of a step and of all steps, every MFU that follows, and the steady rates."""

from __future__ import annotations

from collections.abc import Mapping

from .items import Item, unknown
from .numeric import Number, one
from .run import Run
from .speed import CONVENTIONS, NO_STEPS, CountedFlops, Speed, SpeedInputs
from .step_time.seconds import FORMULAS

_CONVENTION_CODES = (("mfu_6nd", "6nd"), ("mfu_causal", "causal"), ("mfu_full_attention", "full_attention"))


def items(speed: Speed, plain: Speed, steps: float | None) -> list[Item]:
    """``time.step`` with its parts, and ``time.training``; ``plain`` is the speed without corrections."""
    bound = speed.lower_bound
    formula = "steps x time.step" if steps else "as assumed"
    if speed.training is None or plain.training is None:
        reason = speed.reason or ""
        return [
            unknown("time.step", "time", "seconds", reason),
            unknown("time.training", "time", "seconds", reason, formula=formula, parent="time.wall_clock"),
        ]
    said = speed.correction
    n, factor = (None, None) if said is None else (said.n, said.factor)
    training = Item(
        code="time.training",
        section="time",
        quantity="seconds",
        expected=one(speed.training.expected),
        formula=formula,
        basis=speed.basis,
        lower_bound=bound,
        low=one(speed.training.low),
        high=one(speed.training.high),
        assumptions=() if steps else speed.assumptions,
        parent="time.wall_clock",
        uncalibrated=None if said is None else one(plain.training.expected),
        n=n,
        factor=factor,
    )
    if speed.step is None or plain.step is None or not steps:
        return [unknown("time.step", "time", "seconds", NO_STEPS), training]
    step = Item(
        code="time.step",
        section="time",
        quantity="seconds",
        expected=one(speed.step.expected),
        formula=speed.formula,
        basis=speed.basis,
        lower_bound=None if bound is None else bound / steps,
        low=one(speed.step.low),
        high=one(speed.step.high),
        assumptions=speed.assumptions,
        uncalibrated=None if said is None else one(plain.step.expected),
        n=n,
        factor=factor,
    )
    parts = [
        Item(
            code="time.step." + name,
            section="time",
            quantity="seconds",
            expected=one(seconds),
            formula=FORMULAS.get(name, ""),
            basis=speed.basis,
            parent="time.step",
            uncalibrated=one(None if said is None else plain.parts[name]),
        )
        for name, seconds in speed.parts.items()
    ]
    return [step, *parts, training]


def utilisation_items(run: Run, speed: Speed, plain: Speed, flops: CountedFlops) -> list[Item]:
    """``efficiency.mfu`` in force, the MFU in each convention, and the HFU."""
    given = run.efficiency
    convention = given.mfu_convention
    rows: list[tuple[str, Number | None, str, float | None]] = [
        ("mfu", flops.of(convention), CONVENTIONS[convention], given.mfu),
        *[(name, flops.of(each), CONVENTIONS[each], given.mfu if convention == each else None) for name, each in _CONVENTION_CODES],
        (
            "hfu",
            flops.with_recompute(convention, run.activation_checkpointing),
            f"({CONVENTIONS[convention]} + recomputation)",
            given.hfu,
        ),
    ]
    hardware = run.hardware
    peak = None if hardware is None else hardware.device.reference_peak_flops_per_second
    result = []
    for name, work, symbol, stated in rows:
        code, formula = "efficiency." + name, symbol + " / (time.training x devices x dense peak)"
        time, before = speed.training, plain.training
        if hardware is None or time is None or before is None or peak is None or work is None:
            reason = speed.reason or ("the device's peak is not known" if peak is None else "its FLOPs need the shape and sequence_length")
            result.append(unknown(code, "time", "fraction", reason, formula=formula))
            continue
        capacity = hardware.device_count * peak
        result.append(
            Item(
                code=code,
                section="time",
                quantity="fraction",
                formula=formula,
                expected=one(work / (time.expected * capacity) if stated is None else stated),
                low=one(work / (time.high * capacity) if stated is None else stated),
                high=one(work / (time.low * capacity) if stated is None else stated),
                basis=speed.basis if stated is None or given.pilot else "given",
                uncalibrated=one(None if speed is plain or stated is not None else work / (before.expected * capacity)),
            )
        )
    return result


def throughput_items(
    inputs: SpeedInputs, speed: Speed, plain: Speed, amounts: Mapping[str, Number | None], full_steps: float | None
) -> list[Item]:
    """Steady rates of the whole job.

    Of a known step: what a full step reads over what it takes (``full_steps`` counts a last, partial step as its part). Of a
    known time of all steps: everything read over that time.
    """
    result, given, steps = [], inputs.run.efficiency, inputs.steps
    by_step = speed.training is not None and (bool(speed.parts) or given.step_seconds is not None) and bool(full_steps)
    share = steps / full_steps if by_step and full_steps and steps else 1.0
    divided = " of a step / time.step" if by_step else " / time.training"
    for name, amount in amounts.items():
        code, formula = f"throughput.{name}_per_second", name + divided
        time, before = speed.training, plain.training
        if time is None or before is None or amount is None:
            reason = speed.reason if time is None else f"{name} are not known"
            result.append(unknown(code, "time", "per_second", reason or "", formula=formula))
            continue
        stated = given.input_tokens_per_second if name == "input_tokens" and not given.pilot else None
        result.append(
            Item(
                code=code,
                section="time",
                quantity="per_second",
                formula=formula,
                expected=one(amount * share / time.expected if stated is None else stated),
                low=one(amount * share / time.high if stated is None else stated),
                high=one(amount * share / time.low if stated is None else stated),
                basis=speed.basis,
                uncalibrated=one(None if speed is plain or stated is not None else amount * share / before.expected),
            )
        )
    return result
