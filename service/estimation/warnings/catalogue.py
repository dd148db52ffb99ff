"""Every warning that a quote may carry: its code, and what it means. A code that is not listed here cannot be issued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        # What the spec says, and what of it has no effect.
        "no_effect": "a field that was given changes nothing in this run",
        "saves_no_memory": "a field that was given to save memory saves none in this run",
        "parameters_only": "a parameter count is all that is known of the model",
        "count_contradicts_shape": "the given parameter count is not that of the given shape",
        "unknown_model_type": "the config is of a family that no reader knows, and is read as a relative",
        "tower_left_out": "a part of the config's model is not counted",
        "optimizer_states_bounded": "the optimizer's states depend on shapes that are not known, and are bounded",
        "sparse_peak": "a given peak is one with sparsity, which no training reaches",
        # Tokens and FLOPs.
        "six_nd_off": "6 N D is far from the model's FLOPs",
        "long_context_dominates": "attention is a large part of the work",
        "padding_dominates": "much of what is computed is padding",
        "masked_prompts_cost_compute": "tokens without a loss are computed all the same",
        "packing_without_mask": "packed samples attend to each other",
        "rollouts_not_trained_on": "the samples of data are not those that are rolled out",
        "tokens_per_parameter": "far from the compute-optimal tokens a parameter",
        "repeated_data": "the data is read more often than scaling laws were fitted on",
        "sequence_beyond_positions": "the sequence is longer than the model's positions",
        "batch_exceeds_data": "the whole run reads less than one batch",
        # Layout.
        "uneven_batch": "the batch does not divide over the ranks",
        "uneven_tensor_split": "attention heads do not divide over the tensor-parallel ranks",
        "empty_pipeline_stages": "there are more pipeline stages than blocks",
        "expert_parallel_without_experts": "experts are spread, and the model has none",
        "expert_parallel_exceeds_devices": "experts are spread over more ranks than there are",
        "context_parallel_exceeds_sequence": "more ranks share a sequence than it has positions",
        "shard_groups_do_not_divide": "groups of hybrid sharding do not divide the data-parallel ranks",
        "tensor_parallel_across_nodes": "tensor-parallel ranks meet over the network",
        # Speed.
        "peak_taken_as_real": "a utilisation is given that no published run reaches",
        "faster_than_peak": "the time is below what the devices' peak allows",
        "recipe_without_unit": "the device has no known matrix unit for the recipe",
        "no_pilot": "nothing is measured yet",
        # Memory.
        "does_not_fit": "the run does not fit the device's memory",
        "fit_uncertain": "the device's memory lies inside the interval of the peak",
        "no_alternative": "no small change makes the run fit",
        "alternatives_not_searched": "changes that would make the run fit were not looked for",
        # The budget.
        "no_evaluation": "no evaluation is budgeted",
        "no_ablation_reserve": "no small runs are budgeted",
        "no_failure_reserve": "nothing is set aside for runs that fail",
        "main_run_is_the_budget": "the main run takes nearly all of the budget",
        "small_fine_tune": "what surrounds the run outweighs its compute",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:
    """Something the caller should know before trusting the quote; ``pointer`` is a JSON pointer into the spec."""

    code: str
    detail: str
    pointer: str | None = None

    def __post_init__(self) -> None:
        if self.code not in MEANINGS:
            raise ValueError(f"warning {self.code} is not in the catalogue")


def no_effect(pointer: str, why: str) -> Warning:
    """A field that was given and changes nothing: said, never silently ignored."""
    return Warning(code="no_effect", detail=f"{pointer} changes nothing: {why}", pointer=pointer)
