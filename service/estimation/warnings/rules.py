"""What a caller should know before trusting a quote: the mistakes that training budgets are known for.

Each rule is one function from what is known of the run to a warning or nothing; thresholds are named, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..items import Items
from ..recipes import RECIPES
from ..run import Run
from . import idle_fields
from .catalogue import Warning

MAIN_RUN_SHARE = 0.9  # leaves a tenth for everything that is not the main run
PADDING_SHARE = 0.25
ATTENTION_SHARE = 1 / 3  # half as much again on top of the matrices: 6 N D has lost its meaning
SIX_ND_TOLERANCE = 0.10  # both known errors of 6 N D (attention left out, look-ups counted) are about a tenth at 8k tokens
SMALL_RUN_DEVICE_HOURS = 8.0  # one working day of one device: less than preparing the data and reading the results takes
OPTIMAL_TOKENS_PER_PARAMETER = 20.0  # Hoffmann et al., arXiv:2203.15556
OFF_OPTIMUM_FACTOR = 5.0
ROLLOUTS_TOLERANCE = 0.05  # dropped groups and a last step that is not full
HARMLESS_EPOCHS = 4.0  # repeating up to four times costs little loss (Muennighoff et al., arXiv:2305.16264)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules look at."""

    run: Run
    items: Items
    active_parameters: float | None
    fits: bool | str | None

    def of(self, code: str) -> Any:
        """Expected value of an item, or None."""
        return self.items.expected(code)

    def share(self, part: str, whole: str) -> float | None:
        """One item over another; None where either is unknown."""
        first, second = self.of(part), self.of(whole)
        return None if first is None or not second else first / second


def _gib(amount: float) -> str:
    """Bytes as they are read off a device."""
    return f"{amount / 2**30:,.1f} GiB"


def _plain(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def parameters_only(facts: Facts) -> Warning | None:
    """Budgeting by the parameter count alone."""
    if facts.run.architecture.shape_known:
        return None
    return Warning(
        code="parameters_only",
        detail="a parameter count decides only a part: attention, activations and logits need the layers, widths and sequence_length",
        pointer="/model/parameter_count",
    )


def peak_taken_as_real(facts: Facts) -> Warning | None:
    """A theoretical peak taken as a real rate."""
    given = facts.run.efficiency
    limit = RECIPES[facts.run.precision.recipe].highest_mfu
    for name, value in (("mfu", given.mfu), ("hfu", given.hfu)):
        if value is not None and value > limit:
            return Warning(
                code="peak_taken_as_real",
                detail=f"{name} {value:g} is more than published runs reach (about {limit:g}): a peak is no rate that training runs at",
                pointer=f"/efficiency/{name}",
            )
    return None


def faster_than_peak(facts: Facts) -> Warning | None:
    """A time below what the devices' peak allows."""
    item = facts.items.get("time.training")
    if item is None or item.expected is None or item.lower_bound is None or item.expected >= item.lower_bound:
        return None
    return Warning(
        code="faster_than_peak",
        detail=f"{item.expected:.4g} s of training is below the {item.lower_bound:.4g} s that the devices' dense peak allows",
        pointer="/efficiency",
    )


def no_evaluation(facts: Facts) -> Warning | None:
    """No evaluation in the budget."""
    evaluation = facts.run.evaluation
    if evaluation.suites or evaluation.interval_steps or evaluation.device_hours is not None or evaluation.tokens_per_evaluation:
        return None
    return Warning(
        code="no_evaluation", detail="no evaluation is budgeted: nothing will say whether the run was worth it", pointer="/evaluation"
    )


def no_ablation_reserve(facts: Facts) -> Warning | None:
    """No small runs beside the main one."""
    reserves = facts.run.reserves
    if reserves.ablation_fraction or any(run.count and run.device_hours for run in reserves.ablation_runs):
        return None
    return Warning(
        code="no_ablation_reserve",
        detail="no ablations are budgeted: tokenizer, mixture, learning rate and batch size are usually chosen by small runs",
        pointer="/reserves/ablation_fraction",
    )


def no_failure_reserve(facts: Facts) -> Warning | None:
    """Nothing set aside for failed runs."""
    if facts.run.reserves.rerun_fraction != 0:
        return None
    return Warning(code="no_failure_reserve", detail="nothing is set aside for runs that fail", pointer="/reserves/rerun_fraction")


def main_run_is_the_budget(facts: Facts) -> Warning | None:
    """The main run takes nearly all."""
    share = facts.share("device_hours.training", "device_hours.total")
    if share is None or share <= MAIN_RUN_SHARE or _small_fine_tune(facts):
        return None
    return Warning(
        code="main_run_is_the_budget",
        detail=f"the main run is {share:.0%} of all device-hours: a mistake found late leaves nothing to mend it with",
        pointer="/reserves",
    )


def no_pilot(facts: Facts) -> Warning | None:
    """Nothing measured yet."""
    item = facts.items.get("time.step")
    if item is None or item.basis in ("calibrated", "pilot") or facts.run.efficiency.step_seconds is not None:
        return None
    return Warning(
        code="no_pilot", detail="no pilot is measured yet: a few steps on the real devices bound the time best", pointer="/efficiency"
    )


def padding_dominates(facts: Facts) -> Warning | None:
    """Padding is computed too."""
    share = facts.share("tokens.padding", "tokens.tensor_positions")
    if share is None or share <= PADDING_SHARE:
        return None
    return Warning(
        code="padding_dominates",
        detail=f"{share:.0%} of the computed positions are padding: pack or sort by length",
        pointer="/data/packing",
    )


def long_context_dominates(facts: Facts) -> Warning | None:
    """Attention is a large part of the work."""
    share = facts.share("compute.attention", "compute.training")
    if share is None or share <= ATTENTION_SHARE:
        return None
    return Warning(
        code="long_context_dominates",
        detail=f"attention is {share:.0%} of the training FLOPs: cost grows with the square of the length, not with the tokens",
        pointer="/sequence_length",
    )


def masked_prompts_cost_compute(facts: Facts) -> Warning | None:
    """Prompts without a loss are computed all the same."""
    share = facts.share("tokens.target", "tokens.input")
    if facts.run.data.histogram is None or share is None or share >= 1:
        return None
    return Warning(
        code="masked_prompts_cost_compute",
        detail=f"the loss counts {share:.0%} of the tokens read; the others are computed, forward and backward, all the same",
        pointer="/data/prompt_tokens",
    )


def packing_without_mask(facts: Facts) -> Warning | None:
    """Samples that see each other."""
    if facts.run.data.packing != "packed" or not facts.run.data.cross_sample_attention:
        return None
    return Warning(
        code="packing_without_mask",
        detail="packed samples attend to each other: that changes what is learnt, not only what it costs",
        pointer="/data/cross_sample_attention",
    )


def tokens_per_parameter(facts: Facts) -> Warning | None:
    """Far from the compute-optimal ratio."""
    tokens, parameters = facts.of("tokens.input"), facts.active_parameters
    if facts.run.method.objective != "pretrain" or facts.run.method.kind != "full" or not tokens or not parameters:
        return None
    if facts.run.architecture.image_positions is not None:
        return None  # the law was fitted on text
    ratio = tokens / parameters
    off = max(ratio / OPTIMAL_TOKENS_PER_PARAMETER, OPTIMAL_TOKENS_PER_PARAMETER / ratio)
    if off <= OFF_OPTIMUM_FACTOR:
        return None
    if ratio > OPTIMAL_TOKENS_PER_PARAMETER:
        side, then = "more", "fine where inference counts, if it is meant"
    else:
        side, then = "fewer", "a smaller model on more tokens would learn more; fine where a trained model is trained on, if it is meant"
    return Warning(
        code="tokens_per_parameter",
        detail=f"{_plain(ratio)} tokens a parameter, {_plain(off)} times {side} than the {OPTIMAL_TOKENS_PER_PARAMETER:g} that give the "
        f"lowest loss for the training compute; {then}",
        pointer="/data",
    )


def repeated_data(facts: Facts) -> Warning | None:
    """Data read more often than any scaling law was fitted on."""
    times = facts.share("tokens.input", "tokens.unique")
    if facts.run.method.objective != "pretrain" or times is None or times <= 1 or facts.run.architecture.image_positions is not None:
        return None  # images are read dozens of times, and differently each time
    harm = "up to four epochs cost little loss" if times <= HARMLESS_EPOCHS else "beyond four epochs the loss gains less and less"
    return Warning(
        code="repeated_data",
        detail=f"the data is read {times:.3g} times; scaling laws were fitted on data read once ({harm}, arXiv:2305.16264)",
        pointer="/data/unique_tokens",
    )


def six_nd_off(facts: Facts) -> Warning | None:
    """6 N D is a floor, not a budget."""
    ratio = facts.share("compute.training", "compute.6nd")
    if ratio is None or abs(ratio - 1) <= SIX_ND_TOLERANCE:
        return None
    return Warning(
        code="six_nd_off",
        detail=f"the model's FLOPs are {ratio:.2f} times 6ND: it leaves attention out and counts look-ups, and is a floor, not a budget",
        pointer="/model",
    )


def _small_fine_tune(facts: Facts) -> bool:
    """A tuning run of less than a day of one device."""
    hours = facts.of("device_hours.training")
    tuned = facts.run.method.kind != "full" or facts.run.method.objective != "pretrain"
    return tuned and hours is not None and hours < SMALL_RUN_DEVICE_HOURS


def small_fine_tune(facts: Facts) -> Warning | None:
    """Data and evaluation outweigh compute."""
    if not _small_fine_tune(facts):
        return None
    return Warning(
        code="small_fine_tune",
        detail=f"{facts.of('device_hours.training'):.2g} device-hours: preparing the data, building the evaluation and reading the "
        "failures will outweigh the compute",
        pointer="/data",
    )


def does_not_fit(facts: Facts) -> Warning | None:
    """The memory is not there, or may not be."""
    hardware = facts.run.hardware
    if facts.fits is True or hardware is None:
        return None
    peak = facts.of("memory.peak_process")
    if facts.fits is None:
        return None
    if peak is None:
        return Warning(
            code="does_not_fit",
            detail=f"the model's states alone are {_gib(facts.of('memory.model_states'))} a device, "
            f"{_gib(hardware.device.memory_bytes)} on the device: shard them (parallelism), or take fewer bytes a parameter",
            pointer="/parallelism",
        )
    text = f"{_gib(peak)} at the peak, {_gib(hardware.device.memory_bytes)} on the device"
    if facts.fits is False:
        return Warning(code="does_not_fit", detail=f"the run does not fit: {text}", pointer="/hardware/device")
    return Warning(
        code="fit_uncertain", detail=f"the device's memory lies inside the interval of the peak: {text}", pointer="/hardware/device"
    )


def rollouts_not_trained_on(facts: Facts) -> Warning | None:
    """The samples that are trained on are not those that are rolled out."""
    wanted, rows = facts.run.post_training, facts.run.data.histogram
    if facts.run.method.objective not in ("ppo", "grpo") or wanted.prompts is None or rows is None:
        return None
    rollouts, samples = wanted.prompts * wanted.samples_per_prompt, sum(count for _, _, count in rows)
    if abs(samples / rollouts - 1) <= ROLLOUTS_TOLERANCE:
        return None
    return Warning(
        code="rollouts_not_trained_on",
        detail=f"data has {samples:,} samples, but {rollouts:,} rollouts are made (prompts x samples_per_prompt): the training that is "
        f"quoted reads the samples of data; to train on every rollout give {rollouts:,} of them",
        pointer="/data/samples",
    )


def recipe_without_unit(facts: Facts) -> Warning | None:
    """A recipe that the device has no matrix unit for."""
    if facts.run.hardware is None:
        return None
    device, recipe = facts.run.hardware.device, facts.run.precision.recipe
    own = device.unit_peak_flops_per_second(RECIPES[recipe].matrix_unit)
    if own is not None:
        return None
    return Warning(
        code="recipe_without_unit",
        detail=f"no {recipe} peak of {device.name} is known: the quote uses its 16-bit peak",
        pointer="/precision/recipe",
    )


def tensor_parallel_across_nodes(facts: Facts) -> Warning | None:
    """Tensor parallel ranks that meet over the network."""
    if facts.run.hardware is None or facts.run.layout.tensor <= facts.run.hardware.devices_per_node:
        return None
    return Warning(
        code="tensor_parallel_across_nodes",
        detail="tensor-parallel ranks exchange activations in every layer, and here over the network",
        pointer="/parallelism/tensor",
    )


def batch_exceeds_data(facts: Facts) -> Warning | None:
    """One step that the data do not fill: it is quoted as a full one."""
    read, length = facts.of("tokens.tensor_positions"), facts.run.sequence_length
    if read is None or length is None or facts.run.efficiency.mfu is not None or facts.run.efficiency.hfu is not None:
        return None
    rows = facts.run.data.histogram
    batch = facts.run.batch.global_batch_size
    pair = facts.run.method.sequences_per_element
    whole = rows is None or facts.run.data.packing == "packed"
    samples = read / length / pair if rows is None or whole else sum(n for _, _, n in rows) * facts.run.data.epochs
    if samples >= batch:
        return None
    return Warning(
        code="batch_exceeds_data",
        detail=f"the whole run reads {samples:.4g} sequences, less than one batch of {batch:,}: its only step is quoted as a full one",
        pointer="/batch",
    )


def beyond_positions(facts: Facts) -> Warning | None:
    """A sequence longer than the model's positions."""
    limit, length = facts.run.architecture.max_positions, facts.run.sequence_length
    if limit is None or length is None or length <= limit:
        return None
    return Warning(
        code="sequence_beyond_positions",
        detail=f"{length} tokens, but the model's config has {limit} positions",
        pointer="/sequence_length",
    )


RULES: tuple[Callable[[Facts], Warning | None], ...] = (
    parameters_only, six_nd_off, long_context_dominates, padding_dominates, masked_prompts_cost_compute, packing_without_mask,
    batch_exceeds_data,
    rollouts_not_trained_on, tokens_per_parameter, repeated_data, beyond_positions, peak_taken_as_real, faster_than_peak,
    recipe_without_unit, tensor_parallel_across_nodes, no_pilot, does_not_fit, no_evaluation, no_ablation_reserve, no_failure_reserve,
    main_run_is_the_budget, small_fine_tune,
)  # fmt: skip


def warnings(
    run: Run, items: Items, *, active_parameters: float | None, fits: bool | str | None, steps: float | None = None
) -> list[Warning]:
    """Every warning that applies, in the order of the quote's sections."""
    facts = Facts(run, items, active_parameters, fits)
    found = [warning for rule in RULES if (warning := rule(facts)) is not None]
    return found + idle_fields.warnings(run, steps)
