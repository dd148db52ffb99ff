"""Parts of the run spec that speak of the whole job: saving, data, evaluation, reserves, post-training, prices."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .fields import Amount, BytesPerParameter, Count, Flag, Name, Part, Positive, PositiveAmount, Ratio, Repeats, Share, Text, fault


class CheckpointingSpec(Part):
    """What is saved, how often, and where to."""

    interval_steps: Positive | None = None
    """Optimizer steps from one save to the next; or `interval_seconds`."""
    interval_seconds: PositiveAmount | None = None
    contents: Literal["full", "weights"] | None = None
    """`full` holds optimizer states too."""
    state_dict: Literal["sharded", "full", "full_on_device"] | None = None
    """How what is sharded is saved: each rank its own part, or gathered into one rank's host memory block by block (`full`, where it is
    left out), or whole on one rank's device first (FSDP's full state dict without CPU offload), which can be the run's peak."""
    retain_last: Count | None = None
    """How many are kept at a time; all where it is left out."""
    weights_interval_steps: Positive | None = None
    """Steps from one copy of the weights alone to the next, a second and lighter kind of checkpoint."""
    asynchronous: Flag | None = None
    """Whether training goes on while a checkpoint is written."""
    storage_bytes_per_second: PositiveAmount | None = None
    """Of the whole job."""
    load_seconds: Amount | None = None
    """To load a checkpoint after a restart."""

    @model_validator(mode="after")
    def _one_interval(self) -> Self:
        if self.interval_steps is not None and self.interval_seconds is not None:
            raise fault("one_interval", "give interval_steps or interval_seconds, not both")
        return self


class DataPipelineSpec(Part):
    """Bytes of the data on its way to the devices, and the pipeline's speed."""

    raw_bytes: Count | None = None
    """As downloaded."""
    processed_bytes: Count | None = None
    """After cleaning."""
    token_bytes: BytesPerParameter | None = None
    """Bytes a stored token: 4 where it is left out."""
    cache_copies: Ratio | None = None
    """Further copies of the tokenized data."""
    input_tokens_per_second: PositiveAmount | None = None
    """What the pipeline delivers to the whole job."""


class SuiteSpec(Part):
    """One evaluation."""

    name: Name
    kind: Literal["validation", "downstream", "safety", "memorization", "human"]
    tokens: Count | None = None
    """Read in one run of it."""
    generated_tokens: Count | None = None
    """Written in one run of it."""
    runs: Count | None = None
    """In the whole job; once every evaluation where it is left out."""


class EvaluationSpec(Part):
    """Evaluation during and after the run."""

    interval_steps: Positive | None = None
    """Optimizer steps from one evaluation to the next."""
    tokens_per_evaluation: Count | None = None
    """Validation tokens read each time."""
    suites: Annotated[list[SuiteSpec], Field(max_length=1000)] | None = None
    device_hours: Amount | None = None
    """Of all evaluation, where it is known."""


class AblationSpec(Part):
    """Small runs beside the main one."""

    name: Name
    kind: Name
    """For people: `tokenizer`, `mixture`, ..."""
    count: Count
    device_hours: Amount
    """Of one run."""


class ReservesSpec(Part):
    """What is set aside for failure and exploration."""

    rerun_fraction: Share | None = None
    """Of the run's device-hours, set aside for runs that fail."""
    ablation_fraction: Share | None = None
    """Of the run's device-hours, for small runs beside it."""
    ablation_runs: Annotated[list[AblationSpec], Field(max_length=1000)] | None = None
    interruptions_per_device_hour: Ratio | None = None
    restart_seconds: Amount | None = None
    """From an interruption to the next step."""


class PostTrainingSpec(Part):
    """Generation, feedback and updates of preference learning and reinforcement learning."""

    prompts: Positive | None = None
    """Prompts that are sampled from in the whole run. The training itself reads `data`."""
    samples_per_prompt: Positive | None = None
    """Answers to each."""
    prompt_tokens: Count | None = None
    """Of one prompt."""
    generated_tokens: Count | None = None
    """Of one answer."""
    update_epochs: Repeats | None = None
    """How often each rollout is trained on."""
    reference: Literal["model", "cached", "none"] | None = None
    """How the frozen reference is read: `model` each time, `cached` once, `none` not at all."""
    generator: Literal["colocated", "separate"] | None = None
    """Where answers are generated: on the devices that train (where it is left out), or on others, which hold what it takes."""
    reward_parameter_count: Count | None = None
    """Of the reward model; rules and verifiers have none."""
    tool_seconds_per_sample: Amount | None = None
    """Processor seconds of tools for one answer."""
    judge_tokens: Count | None = None
    """Read by a judge, in all."""
    preference_pairs: Count | None = None
    """Pairs still to be collected; each takes two answers."""
    human_review_items: Count | None = None
    human_seconds_per_item: Amount | None = None


class RateSpec(Part):
    """A price as the caller gives it."""

    resource: Literal["device_hour", "cpu_hour", "storage_gib_month", "human_hour"]
    device: Name | None = None
    """The device it holds for; any where it is left out."""
    amount: Annotated[str, Field(pattern=r"^\d{1,18}(\.\d{1,12})?$", strict=True, description="A decimal number as text.")]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$", strict=True)]
    source: Text | None = None
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", strict=True)] | None = None
