"""Parts of the run spec that speak of the whole job: saving, data, evaluation, reserves, post-training, prices."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .fields import Amount, BytesPerParameter, Count, Flag, Name, Part, Positive, PositiveAmount, Ratio, Repeats, Share, Text, fault


class CheckpointingSpec(Part):
    """What is saved, how often, and where to."""

    interval_steps: Positive | None = None
    interval_seconds: PositiveAmount | None = None
    contents: Literal["full", "weights"] | None = None
    retain_last: Count | None = None
    weights_interval_steps: Positive | None = None
    asynchronous: Flag | None = None
    storage_bytes_per_second: PositiveAmount | None = None
    load_seconds: Amount | None = None

    @model_validator(mode="after")
    def _one_interval(self) -> Self:
        if self.interval_steps is not None and self.interval_seconds is not None:
            raise fault("one_interval", "give interval_steps or interval_seconds, not both")
        return self


class DataPipelineSpec(Part):
    """Bytes of the data on its way to the devices, and the pipeline's speed."""

    raw_bytes: Count | None = None
    processed_bytes: Count | None = None
    token_bytes: BytesPerParameter | None = None
    cache_copies: Ratio | None = None
    input_tokens_per_second: PositiveAmount | None = None


class SuiteSpec(Part):
    """One evaluation."""

    name: Name
    kind: Literal["validation", "downstream", "safety", "memorization", "human"]
    tokens: Count | None = None
    generated_tokens: Count | None = None
    runs: Count | None = None


class EvaluationSpec(Part):
    """Evaluation during and after the run."""

    interval_steps: Positive | None = None
    tokens_per_evaluation: Count | None = None
    suites: Annotated[list[SuiteSpec], Field(max_length=1000)] | None = None
    device_hours: Amount | None = None


class AblationSpec(Part):
    """Small runs beside the main one."""

    name: Name
    kind: Name
    count: Count
    device_hours: Amount


class ReservesSpec(Part):
    """What is set aside for failure and exploration."""

    rerun_fraction: Share | None = None
    ablation_fraction: Share | None = None
    ablation_runs: Annotated[list[AblationSpec], Field(max_length=1000)] | None = None
    interruptions_per_device_hour: Ratio | None = None
    restart_seconds: Amount | None = None


class PostTrainingSpec(Part):
    """Generation, feedback and updates of preference learning and reinforcement learning."""

    prompts: Positive | None = None
    samples_per_prompt: Positive | None = None
    prompt_tokens: Count | None = None
    generated_tokens: Count | None = None
    update_epochs: Repeats | None = None
    reference: Literal["model", "cached", "none"] | None = None
    reward_parameter_count: Count | None = None
    tool_seconds_per_sample: Amount | None = None
    judge_tokens: Count | None = None
    preference_pairs: Count | None = None
    human_review_items: Count | None = None
    human_seconds_per_item: Amount | None = None


class RateSpec(Part):
    """A price as the caller gives it."""

    resource: Literal["device_hour", "cpu_hour", "storage_gib_month", "human_hour"]
    device: Name | None = None
    amount: Annotated[str, Field(pattern=r"^\d{1,18}(\.\d{1,12})?$", strict=True, description="A decimal number as text.")]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$", strict=True)]
    source: Text | None = None
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", strict=True)] | None = None
