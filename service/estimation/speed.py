"""Speed: the time of all steps from what the caller knows of it, from a prediction, or from a prior.

One run has three MFUs, by what is counted as its work: ``6nd`` (6 N D; 4 N D under adapters), ``causal`` (the matrices a token
meets and half of the attention square) and ``full_attention`` (the whole square). HFU adds the recomputation. All divide by
the devices' dense bf16 peak (fp16 where there is no bf16), whatever the recipe (PaLM, arXiv:2204.02311, appendix B).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .correction import Factor
from .items import Basis
from .numeric import Number, maximum, minimum
from .recipes import RECIPES
from .run import Efficiency, Hardware, Run
from .spread import Spread, exactly, prior
from .step_time import StepTime

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFlops:
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
    """Seconds of one step and of all steps; None with a reason. A correction that they contain stands in ``correction``."""

    step: Spread | None
    training: Spread | None
    basis: Basis
    formula: str
    reason: str | None = None
    assumptions: tuple[str, ...] = ()
    parts: Mapping[str, Number] = field(default_factory=dict)  # seconds of a step by name, adding up to it
    lower_bound: float | None = None  # of training
    correction: Factor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedInputs:
    """What the speed is told from, whatever corrections there are."""

    run: Run
    steps: float | None
    tokens: float | None
    flops: CountedFlops
    predicted: StepTime | None  # None where ``why_not`` says why
    why_not: str


def figures(inputs: SpeedInputs, correction: Factor | None = None) -> Speed:
    """The run's speed; a correction scales predictions and priors alone.

    A rate gives the time of all steps even where their number is not known (no ``sequence_length``).
    """
    run, hardware = inputs.run, inputs.run.hardware
    if hardware is None:
        return _unknown("no hardware is given")
    bound = lower_bound(run, inputs.flops)
    if inputs.tokens is None:
        return _unknown("the number of tokens is not known", bound)
    if run.efficiency.given:
        return _given(inputs, hardware, inputs.tokens, bound)
    if inputs.predicted is None or not inputs.steps:
        return _prior(inputs, hardware, bound, correction)
    time = of_prediction(inputs.predicted, inputs.steps, correction)
    bounds = inputs.predicted if correction is None else correction
    around = Spread(time.step, time.step * bounds.low, time.step * bounds.high)
    step = _possible(around, None if bound is None else bound / inputs.steps)
    evidence = inputs.predicted.evidence
    return Speed(
        step=step,
        training=step.times(inputs.steps),
        basis="prior" if correction is None else "calibrated",
        formula="sum of its parts",
        assumptions=(*["rests on " + what for what in evidence], "interval: " + inputs.predicted.basis),
        parts=time.parts,
        lower_bound=bound,
        correction=correction,
    )


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """Expected seconds of a step by part, of a step and of all steps; arrays over the layouts of a search."""

    parts: Mapping[str, Number]
    step: Number
    training: Number


def of_prediction(predicted: StepTime, steps: Number, correction: Factor | None) -> PredictedTime:
    """A predicted step as own measurements correct it: what a quote and a search rank by."""
    if correction is None:
        return PredictedTime(predicted.parts, predicted.seconds, predicted.seconds * steps)
    parts = {name: seconds * correction.factor for name, seconds in predicted.parts.items()}
    step: Number = 0.0
    for seconds in parts.values():
        step = step + seconds
    return PredictedTime(parts, step, step * steps)


def _each(training: Spread, steps: float | None) -> Spread | None:
    """One step of them all; None where their number is not known."""
    return training.times(1 / steps) if steps else None


def _possible(time: Spread, bound: float | None) -> Spread:
    """No interval of a prediction reaches below the time at the dense peak: nothing runs faster."""
    return time if bound is None else Spread(time.expected, minimum(maximum(time.low, bound), time.expected), time.high)


def _unknown(reason: str, bound: float | None = None) -> Speed:
    return Speed(step=None, training=None, basis="formula", formula="", reason=reason, lower_bound=bound)


def _given(inputs: SpeedInputs, hardware: Hardware, tokens: float, bound: float | None) -> Speed:
    """The caller's figure, exactly; a pilot's with its own noise."""
    run, steps, given = inputs.run, inputs.steps, inputs.run.efficiency
    basis: Basis = "pilot" if given.pilot else "given"
    measured = _measured if given.pilot else _as_given
    if given.step_seconds is not None:
        if not steps:
            return _unknown(NO_STEPS, bound)
        step = measured(given.step_seconds, run.interval_coverage)
        return Speed(step=step, training=step.times(steps), basis=basis, formula="efficiency.step_seconds", lower_bound=bound)
    if given.input_tokens_per_second is not None:
        training = measured(tokens / given.input_tokens_per_second, run.interval_coverage)
        return Speed(
            step=_each(training, steps), training=training, basis=basis, formula="time.training / steps", lower_bound=bound,
            assumptions=("time.training = tokens.input / efficiency.input_tokens_per_second",),
        )  # fmt: skip
    work, rate, name, formula = _utilisation(inputs)
    peak = hardware.device.reference_peak_flops_per_second
    if peak is None:
        return _unknown("the device's dense bf16 or fp16 peak is not known", bound)
    if work is None:
        return _unknown(f"the FLOPs that {name} counts need the model's shape and sequence_length", bound)
    training = exactly(work / (hardware.device_count * rate * peak))
    return Speed(
        step=_each(training, steps), training=training, basis=basis, formula="time.training / steps", lower_bound=bound,
        assumptions=(f"time.training = {formula}", f"peak {peak:.4g} FLOP/s a device, dense"),
    )  # fmt: skip


def _utilisation(inputs: SpeedInputs) -> tuple[float | None, float, str, str]:
    """FLOPs, the share of the peak that the caller gave, its name and the formula."""
    given: Efficiency = inputs.run.efficiency
    convention = given.mfu_convention
    if given.mfu is not None:
        formula = f"{CONVENTIONS[convention]} / (devices x mfu x peak)"
        return inputs.flops.of(convention), given.mfu, f"mfu ({convention})", formula
    work = inputs.flops.with_recompute(convention, inputs.run.activation_checkpointing)
    formula = f"({CONVENTIONS[convention]} + recomputation) / (devices x hfu x peak)"
    return work, given.hfu or 0.0, f"hfu ({convention})", formula


def _as_given(seconds: float, coverage: float) -> Spread:
    return exactly(seconds)


def _measured(seconds: float, coverage: float) -> Spread:
    return prior(seconds, seconds / PILOT_SPREAD, seconds * PILOT_SPREAD, coverage)


def prior_mfu(run: Run, hardware: Hardware) -> float:
    """The MFU (6ND) that published runs of such a device, method and recipe reach."""
    device = hardware.device
    mfu = PRIOR_MFU.get(device.architecture or "", PRIOR_MFU_ELSEWHERE)
    if run.method.quantization is not None:
        mfu *= PRIOR_QUANTIZED
    elif run.method.adapters:
        mfu *= PRIOR_LORA
    recipe = RECIPES[run.precision.recipe]
    if recipe.narrow:
        mfu *= PRIOR_FP8
    if recipe.matrix_unit == "fp32":
        # The plain unit is slower than the matrix unit the MFU divides by.
        own, reference = device.peak_fp32_flops_per_second, device.reference_peak_flops_per_second
        mfu *= own / reference if own and reference else 1.0
    return mfu


def _prior(inputs: SpeedInputs, hardware: Hardware, bound: float | None, correction: Factor | None) -> Speed:
    """A constant share of the peak, where no step can be predicted."""
    run, flops, peak = inputs.run, inputs.flops, hardware.device.reference_peak_flops_per_second
    work = flops.with_recompute("6nd", run.activation_checkpointing)
    if work is None:
        work = flops.six_nd
    if work is not None and flops.six_nd is not None and flops.causal is not None:
        work += max(flops.causal - flops.six_nd, 0.0)  # long samples: 6 N D knows nothing of attention
    if peak is None or work is None:
        return _unknown("no peak of the device is known" if peak is None else "the FLOPs are not known", bound)
    mfu = prior_mfu(run, hardware)
    expected = work / (hardware.device_count * mfu * peak)
    bounds: Spread | Factor = prior(1.0, 1 / PRIOR_SPREAD, PRIOR_SPREAD, run.interval_coverage)
    if correction is not None:
        expected, bounds = expected * correction.factor, correction
    training = _possible(Spread(expected, expected * bounds.low, expected * bounds.high), bound)
    return Speed(
        step=_each(training, inputs.steps),
        training=training,
        basis="prior" if correction is None else "calibrated",
        formula="(the larger of compute.6nd and compute.training + recomputation) / (devices x utilisation x peak) / steps",
        assumptions=(
            f"predicted from a constant utilisation of {mfu:.3g} of the dense peak, the median of published runs: {inputs.why_not}",
            f"off by up to a factor of {PRIOR_SPREAD:g} in four runs of five",
        ),
        lower_bound=bound,
        correction=correction,
    )


def lower_bound(run: Run, flops: CountedFlops) -> float | None:
    """Seconds of training at the recipe's own dense peak."""
    if run.hardware is None:
        return None
    peak = run.hardware.device.recipe_peak_flops_per_second(run.precision.recipe)
    work = flops.six_nd if flops.causal is None else flops.causal
    return None if peak is None or work is None else work / (run.hardware.device_count * peak)
