"""Speed: the time of all steps from what the caller knows of it, from a prediction, or from a prior; and every MFU that follows.

One run has three MFUs, by what is counted as its work: ``6nd`` (6 N D; 4 N D under adapters), ``causal`` (the matrices a token
meets and half of the attention square) and ``full_attention`` (the whole square). HFU adds the recomputation. All divide by
the devices' dense bf16 peak (fp16 where there is no bf16), whatever the recipe (PaLM, arXiv:2204.02311, appendix B).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from .correction import Factor
from .items import Basis, Item, unknown
from .run import Efficiency, Run
from .spread import Spread, exactly, prior
from .step_time.seconds import FORMULAS
from .wholes import total

CONVENTIONS = {"6nd": "compute.6nd", "causal": "compute.training", "full_attention": "compute.training_full_attention"}

# Median MFU (6ND over the dense bf16 peak) of published runs by device family, where no step time can be predicted. From the
# 596 runs of tests/cases/measured_public.jsonl, rows of at least 4 groups; the other families take the median of all.
PRIOR_MFU = {"ampere": 0.40, "hopper": 0.31, "blackwell": 0.30, "cdna3": 0.23}
PRIOR_MFU_ELSEWHERE = 0.33
# Adapters are tuned on few devices in small batches, and 4-bit bases are unpacked before every product: LoRA and GPTQ Q-LoRA of
# Qwen on A100 reach 0.27 and 0.19 of the peak where full training reaches 0.40 (4 N D basis).
PRIOR_LORA, PRIOR_QUANTIZED = 0.68, 0.48
PRIOR_FP8 = 1.3  # fp8 against bf16 of the same source and device, both over the bf16 peak
# A constant MFU is off by a factor of 2 in one published run of ten (weighted, leaving each source out).
PRIOR_SPREAD = 2.0

# A pilot of some steps against the whole run: the same spec measured again differs by 1.3 to 2.7 % in the median (InternEvo,
# Megatron-Bridge and BigScience rows of tests/cases/measured_public.jsonl), by about 5 % in one case of five.
PILOT_SPREAD = 1.05

NO_STEPS = "the number of steps is not known: sequence_length is not given"


class Prediction(Protocol):
    """A predicted step: named seconds that add up, and the interval as multiples of their sum."""

    @property
    def parts(self) -> Mapping[str, float]:
        """Seconds by name."""

    @property
    def basis(self) -> str:
        """What the interval rests on."""

    @property
    def evidence(self) -> tuple[str, ...]:
        """What was measured to predict it."""

    @property
    def low(self) -> float:
        """The interval's lower bound."""

    @property
    def high(self) -> float:
        """The interval's upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flops:
    """The run's work in every convention; None where it cannot be counted."""

    six_nd: float | None
    causal: float | None
    full_attention: float | None
    recompute: float | None  # what checkpointing executes again
    forward_6nd: float | None  # 2 N D

    def of(self, convention: str) -> float | None:
        """FLOPs of an MFU convention."""
        return {"6nd": self.six_nd, "causal": self.causal, "full_attention": self.full_attention}[convention]

    def with_recompute(self, convention: str, checkpointing: str) -> float | None:
        """FLOPs of an HFU: a convention's and its recomputation (under ``6nd``, full checkpointing repeats 2 N D)."""
        work = self.of(convention)
        again = 0.0 if checkpointing == "none" else self.recompute
        if convention == "6nd" and checkpointing == "full":
            again = self.forward_6nd
        return None if work is None or again is None else work + again


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Seconds of one step and of all steps; None with a reason."""

    step: Spread | None
    training: Spread | None
    basis: Basis
    formula: str
    reason: str | None = None
    assumptions: tuple[str, ...] = ()
    parts: tuple[tuple[str, float], ...] = ()  # of a step, adding up to it
    lower_bound: float | None = None  # of training
    correction: Factor | None = None
    uncalibrated: float | None = None  # seconds of training before the correction


def speed(run: Run, *, steps: int | None, tokens: float | None, flops: Flops, predicted: Prediction | None, why_not: str,
          correction: Factor | None) -> Speed:  # fmt: skip
    """The run's speed. ``why_not`` says why there is no prediction; a correction scales predictions and priors alone.

    A rate gives the time of all steps even where their number is not known (no ``sequence_length``).
    """
    if run.hardware is None:
        return _unknown("no hardware is given")
    bound = lower_bound(run, flops)
    if tokens is None:
        return _unknown("the number of tokens is not known", bound)
    given = run.efficiency
    if given.given:
        return _given(run, given, steps, tokens, flops, bound)
    factor = 1.0 if correction is None else correction.factor
    if predicted is not None and steps:
        parts = tuple((name, seconds * factor) for name, seconds in predicted.parts.items())
        expected = total([seconds for _, seconds in parts])
        step = _possible(_around(expected, predicted.low, predicted.high, correction), None if bound is None else bound / steps)
        return Speed(
            step=step, training=step.times(steps), basis="prior" if correction is None else "calibrated", formula="sum of its parts",
            assumptions=(*(f"rests on {what}" for what in predicted.evidence), f"interval: {predicted.basis}"),
            parts=parts, lower_bound=bound, correction=correction, uncalibrated=total(list(predicted.parts.values())) * steps,
        )  # fmt: skip
    return _prior(run, steps, flops, bound, why_not, correction)


def _each(training: Spread, steps: int | None) -> Spread | None:
    """One step of them all; None where their number is not known."""
    return training.times(1 / steps) if steps else None


def _around(expected: float, low: float, high: float, correction: Factor | None) -> Spread:
    if correction is not None:
        low, high = correction.low, correction.high
    return Spread(expected, expected * low, expected * high)


def _possible(time: Spread, bound: float | None) -> Spread:
    """No interval of a prediction reaches below the time at the dense peak: nothing runs faster."""
    return time if bound is None else Spread(time.expected, min(max(time.low, bound), time.expected), time.high)


def _unknown(reason: str, bound: float | None = None) -> Speed:
    return Speed(step=None, training=None, basis="formula", formula="", reason=reason, lower_bound=bound)


def _given(run: Run, given: Efficiency, steps: int | None, tokens: float, flops: Flops, bound: float | None) -> Speed:
    """The caller's figure, exactly; a pilot's with its own noise."""
    basis: Basis = "pilot" if given.pilot else "given"
    known = _measured if given.pilot else _as_given
    if given.step_seconds is not None:
        if not steps:
            return _unknown(NO_STEPS, bound)
        step = known(given.step_seconds, run.interval_coverage)
        return Speed(step=step, training=step.times(steps), basis=basis, formula="efficiency.step_seconds", lower_bound=bound)
    if given.input_tokens_per_second is not None:
        training = known(tokens / given.input_tokens_per_second, run.interval_coverage)
        return Speed(
            step=_each(training, steps), training=training, basis=basis, formula="time.training / steps", lower_bound=bound,
            assumptions=("time.training = tokens.input / efficiency.input_tokens_per_second",),
        )  # fmt: skip
    convention = given.mfu_convention
    if given.mfu is not None:
        work, rate, name = flops.of(convention), given.mfu, f"mfu ({convention})"
        formula = f"{CONVENTIONS[convention]} / (devices x mfu x peak)"
    else:
        assert given.hfu is not None
        work, rate, name = flops.with_recompute(convention, run.activation_checkpointing), given.hfu, f"hfu ({convention})"
        formula = f"({CONVENTIONS[convention]} + recomputation) / (devices x hfu x peak)"
    peak = _peak(run)
    if peak is None:
        return _unknown("the device's dense bf16 or fp16 peak is not known", bound)
    if work is None:
        return _unknown(f"the FLOPs that {name} counts need the model's shape and sequence_length", bound)
    training = exactly(work / (_devices(run) * rate * peak))
    return Speed(
        step=_each(training, steps), training=training, basis=basis, formula="time.training / steps", lower_bound=bound,
        assumptions=(f"time.training = {formula}", f"peak {peak:.4g} FLOP/s a device, dense"),
    )  # fmt: skip


def _as_given(seconds: float, coverage: float) -> Spread:
    return exactly(seconds)


def _measured(seconds: float, coverage: float) -> Spread:
    return prior(seconds, seconds / PILOT_SPREAD, seconds * PILOT_SPREAD, coverage)


def prior_mfu(run: Run) -> float:
    """The MFU (6ND) that published runs of such a device, method and recipe reach."""
    assert run.hardware is not None
    mfu = PRIOR_MFU.get(run.hardware.device.architecture or "", PRIOR_MFU_ELSEWHERE)
    if run.method.quantization is not None:
        mfu *= PRIOR_QUANTIZED
    elif run.method.adapters:
        mfu *= PRIOR_LORA
    if run.precision.recipe in ("fp8_mixed", "nvfp4_mixed"):
        mfu *= PRIOR_FP8
    if run.precision.recipe == "fp32":
        # The plain unit is slower than the matrix unit the MFU divides by.
        own, reference = run.hardware.device.peak_fp32_flops_per_second, run.hardware.device.reference_peak_flops_per_second
        mfu *= own / reference if own and reference else 1.0
    return mfu


def _prior(run: Run, steps: int | None, flops: Flops, bound: float | None, why_not: str, correction: Factor | None) -> Speed:
    assert run.hardware is not None
    peak = _peak(run)
    work = flops.with_recompute("6nd", run.activation_checkpointing)
    if work is None:
        work = flops.six_nd
    if work is not None and flops.six_nd is not None and flops.causal is not None:
        work += max(flops.causal - flops.six_nd, 0.0)  # long samples: 6 N D knows nothing of attention
    if peak is None or work is None:
        return _unknown("no peak of the device is known" if peak is None else "the FLOPs are not known", bound)
    mfu = prior_mfu(run)
    plain = work / (_devices(run) * mfu * peak)
    spread = prior(1.0, 1 / PRIOR_SPREAD, PRIOR_SPREAD, run.interval_coverage)
    factor = 1.0 if correction is None else correction.factor
    training = _possible(_around(plain * factor, spread.low, spread.high, correction), bound)
    return Speed(
        step=_each(training, steps),
        training=training,
        basis="prior" if correction is None else "calibrated",
        formula="(the larger of compute.6nd and compute.training + recomputation) / (devices x utilisation x peak) / steps",
        assumptions=(
            f"predicted from a constant utilisation of {mfu:.3g} of the dense peak, the median of published runs: {why_not}",
            f"off by up to a factor of {PRIOR_SPREAD:g} in four runs of five",
        ),
        lower_bound=bound,
        correction=correction,
        uncalibrated=plain,
    )


def _devices(run: Run) -> int:
    assert run.hardware is not None
    return run.hardware.device_count


def _peak(run: Run) -> float | None:
    return None if run.hardware is None else run.hardware.device.reference_peak_flops_per_second


def lower_bound(run: Run, flops: Flops) -> float | None:
    """Seconds of training at the recipe's own dense peak."""
    if run.hardware is None:
        return None
    peak = run.hardware.device.recipe_peak_flops_per_second(run.precision.recipe)
    work = flops.six_nd if flops.causal is None else flops.causal
    return None if peak is None or work is None else work / (_devices(run) * peak)


def items(speed: Speed, *, steps: int | None) -> list[Item]:
    """``time.step`` with its parts, and ``time.training``."""
    bound = speed.lower_bound
    formula = "steps x time.step" if steps else "as assumed"
    if speed.training is None:
        reason = speed.reason or ""
        return [
            unknown("time.step", "time", "seconds", reason),
            unknown("time.training", "time", "seconds", reason, formula=formula, parent="time.wall_clock"),
        ]
    training = Item(
        code="time.training", section="time", quantity="seconds", expected=speed.training.expected, low=speed.training.low,
        high=speed.training.high, lower_bound=bound, formula=formula, basis=speed.basis, parent="time.wall_clock",
        assumptions=() if steps else speed.assumptions,
    )  # fmt: skip
    if speed.step is None:
        return [unknown("time.step", "time", "seconds", NO_STEPS), training]
    assert steps
    step = Item(
        code="time.step", section="time", quantity="seconds", expected=speed.step.expected, low=speed.step.low, high=speed.step.high,
        lower_bound=None if bound is None else bound / steps, formula=speed.formula, basis=speed.basis, assumptions=speed.assumptions,
    )  # fmt: skip
    parts = [
        Item(
            code=f"time.step.{name}", section="time", quantity="seconds", expected=seconds, formula=FORMULAS.get(name, ""),
            basis=speed.basis, parent="time.step",
        )
        for name, seconds in speed.parts
    ]  # fmt: skip
    if speed.correction is not None:
        for item, times in ((step, 1 / steps), (training, 1)):
            item.n, item.factor = speed.correction.n, speed.correction.factor
            item.uncalibrated = None if speed.uncalibrated is None else speed.uncalibrated * times
    return [step, *parts, training]


def efficiency_items(run: Run, speed: Speed, flops: Flops) -> list[Item]:
    """``efficiency.mfu`` in force, the MFU in each convention, and the HFU."""
    given = run.efficiency
    convention = given.mfu_convention
    rows: list[tuple[str, float | None, str, float | None]] = [
        ("mfu", flops.of(convention), CONVENTIONS[convention], given.mfu),
        ("mfu_6nd", flops.six_nd, "compute.6nd", given.mfu if convention == "6nd" else None),
        ("mfu_causal", flops.causal, "compute.training", given.mfu if convention == "causal" else None),
        ("mfu_full_attention", flops.full_attention, CONVENTIONS["full_attention"], given.mfu if convention == "full_attention" else None),
        (
            "hfu",
            flops.with_recompute(convention, run.activation_checkpointing),
            f"({CONVENTIONS[convention]} + recomputation)",
            given.hfu,
        ),
    ]
    peak = _peak(run)
    result = []
    for name, work, symbol, stated in rows:
        code = f"efficiency.{name}"
        formula = f"{symbol} / (time.training x devices x dense peak)"
        if speed.training is None or peak is None or work is None:
            reason = speed.reason or ("the device's peak is not known" if peak is None else "its FLOPs need the shape and sequence_length")
            result.append(unknown(code, "time", "fraction", reason, formula=formula))
            continue
        capacity = _devices(run) * peak
        time = speed.training
        result.append(
            Item(
                code=code, section="time", quantity="fraction", formula=formula,
                expected=work / (time.expected * capacity) if stated is None else stated,
                low=work / (time.high * capacity) if stated is None else stated,
                high=work / (time.low * capacity) if stated is None else stated,
                basis=speed.basis if stated is None or given.pilot else "given",
            )
        )  # fmt: skip
    return result


def throughput_items(
    run: Run, speed: Speed, amounts: Mapping[str, float | None], steps: float | None, whole_steps: int | None
) -> list[Item]:
    """Steady rates of the whole job.

    Of a known step: what a full step reads over what it takes (``steps`` counts a last, partial step as its part). Of a
    known time of all steps: everything read over that time.
    """
    result = []
    by_step = speed.training is not None and (bool(speed.parts) or run.efficiency.step_seconds is not None) and bool(steps)
    for name, amount in amounts.items():
        code = f"throughput.{name}_per_second"
        formula = f"{name} of a step / time.step" if by_step else f"{name} / time.training"
        if speed.training is None or amount is None:
            reason = speed.reason if speed.training is None else f"{name} are not known"
            result.append(unknown(code, "time", "per_second", reason or "", formula=formula))
            continue
        given = run.efficiency
        stated = given.input_tokens_per_second if name == "input_tokens" and not given.pilot else None
        time = speed.training
        share = whole_steps / steps if by_step and steps and whole_steps else 1.0
        result.append(
            Item(
                code=code, section="time", quantity="per_second", formula=formula,
                expected=amount * share / time.expected if stated is None else stated,
                low=amount * share / time.high if stated is None else stated,
                high=amount * share / time.low if stated is None else stated,
                basis=speed.basis,
            )
        )  # fmt: skip
    return result
