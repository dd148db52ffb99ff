"""The run spec of the HTTP contract, section 3: what is asked about, with nothing filled in yet."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from .fields import (
    MAX_COUNT,
    Amount,
    BytesPerParameter,
    Count,
    Coverage,
    Devices,
    Dropout,
    Flag,
    Layers,
    Name,
    Part,
    Positive,
    PositiveAmount,
    Repeats,
    Utilisation,
    Width,
    fault,
)
from .spec_job import CheckpointingSpec, DataPipelineSpec, EvaluationSpec, PostTrainingSpec, RateSpec, ReservesSpec

FROZEN_PARTS = ("embeddings", "lm_head", "attention", "mlp", "norms")
_LAYER_RANGE = re.compile(r"^layers:\d{1,5}(-\d{1,5})?$")


def _form(value: Any) -> str:
    return "list" if isinstance(value, list) else "one"


_Lengths = Annotated[
    Annotated[Count, Tag("one")] | Annotated[list[Count], Field(min_length=1, max_length=1_000_000), Tag("list")], Discriminator(_form)
]
_Targets = Annotated[
    Annotated[Name, Tag("one")] | Annotated[list[Name], Field(min_length=1, max_length=200), Tag("list")], Discriminator(_form)
]


class ExternalRef(Part):
    """The job's identity in the caller's own system."""

    system: Name
    id: Name


class ModelSpec(Part):
    """The model: exactly one of a preset, a Hugging Face config and a parameter count."""

    preset: Name | None = None
    hf_config: dict[str, Any] | None = Field(default=None, description="A Hugging Face config.json as it is.")
    parameter_count: Positive | None = None
    active_parameter_count: Positive | None = None
    num_hidden_layers: Layers | None = None
    hidden_size: Width | None = None
    num_attention_heads: Width | None = None
    num_key_value_heads: Width | None = None
    head_dim: Width | None = None
    intermediate_size: Width | None = None
    vocab_size: Width | None = None
    tie_word_embeddings: Flag | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("preset", "hf_config", "parameter_count") if getattr(self, name) is not None]
        if len(given) != 1:
            raise fault("exactly_one", "give exactly one of preset, hf_config and parameter_count")
        if self.parameter_count is None:
            stray = sorted(name for name in self.model_fields_set - {"preset", "hf_config"} if getattr(self, name) is not None)
            if stray:
                raise fault("shape_without_count", f"only with parameter_count: {', '.join(stray)}")
        elif self.active_parameter_count is not None and self.active_parameter_count > self.parameter_count:
            raise fault("active_above_total", "active_parameter_count exceeds parameter_count")
        return self


class LoraSpec(Part):
    """Low-rank adapters."""

    rank: Width | None = None
    alpha: PositiveAmount | None = None
    target_modules: _Targets | None = None
    dropout: Dropout | None = None
    adapter_bytes: Literal[2, 4] | None = None
    input_grads: Flag | None = None
    modules_to_save: Annotated[list[Name], Field(max_length=50)] | None = None

    @field_validator("target_modules")
    @classmethod
    def _all_linear_or_names(cls, value: str | list[str] | None) -> str | list[str] | None:
        # A single name is taken as a list of one.
        return [value] if isinstance(value, str) and value != "all-linear" else value


class QuantizationSpec(Part):
    """How the frozen base is stored."""

    format: Literal["nf4", "fp4", "int8", "gptq_int4"] | None = None
    block_size: Width | None = None
    double_quantization: Flag | None = None


class MethodSpec(Part):
    """What is trained and towards what."""

    kind: Literal["full", "lora", "qlora", "frozen"] | None = None
    objective: Literal["pretrain", "sft", "dpo", "reward_model", "ppo", "grpo"] | None = None
    lora: LoraSpec | None = None
    quantization: QuantizationSpec | None = None
    frozen: Annotated[list[Name], Field(max_length=50)] | None = None

    @field_validator("frozen")
    @classmethod
    def _known_parts(cls, value: list[str] | None) -> list[str] | None:
        for part in value or ():
            if part not in FROZEN_PARTS and not _LAYER_RANGE.match(part):
                raise fault("frozen_part", f"each must be one of {', '.join(FROZEN_PARTS)} or a range like layers:0-15")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        adapters = self.kind in ("lora", "qlora")
        if self.lora is not None and not adapters:
            raise fault("lora_kind", "lora applies to kind lora and qlora only")
        if self.quantization is not None and not adapters:
            raise fault("quantization_kind", "only the frozen base of kind lora and qlora is quantized")
        if self.frozen and adapters:
            raise fault("frozen_adapters", "under lora and qlora the whole base is frozen already")
        if self.kind == "frozen" and not self.frozen:
            raise fault("frozen_empty", "kind frozen needs the list of frozen parts")
        if self.frozen and self.kind != "frozen":
            raise fault("frozen_full", "kind full, the default, trains everything: use kind frozen")
        return self


class LengthsSpec(Part):
    """A distribution of sample lengths."""

    histogram: Annotated[list[tuple[Count, Count, Positive]], Field(min_length=1, max_length=100_000)] = Field(
        description="[prompt tokens, target tokens, samples] each"
    )


class DatasetSpec(Part):
    """A data set of the mixture and its version."""

    name: Name
    version: Name | None = None
    tokens: Count | None = None
    weight: Amount | None = None


class DataSpec(Part):
    """What is read: a number of tokens, or samples with their lengths."""

    total_tokens: Positive | None = None
    samples: Positive | None = None
    epochs: Repeats | None = None
    prompt_tokens: _Lengths | None = None
    target_tokens: _Lengths | None = None
    lengths: LengthsSpec | None = None
    packing: Literal["none", "pad_to_max", "packed"] | None = None
    cross_sample_attention: Flag | None = None
    truncation: Flag | None = None
    unique_tokens: Positive | None = None
    datasets: Annotated[list[DatasetSpec], Field(max_length=1000)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        by_sample = self.prompt_tokens is not None or self.target_tokens is not None
        if self.total_tokens is not None:
            if by_sample or self.lengths is not None or self.samples is not None:
                raise fault("data_forms", "give total_tokens, or samples with lengths, not both")
            if self.epochs is not None and self.epochs != 1:
                raise fault("data_epochs", "total_tokens counts all epochs: leave epochs out or give samples")
            return self
        if by_sample and self.lengths is not None:
            raise fault("length_forms", "give prompt_tokens and target_tokens, or lengths, not both")
        lists = [value for value in (self.prompt_tokens, self.target_tokens) if isinstance(value, list)]
        if len(lists) == 2 and len(lists[0]) != len(lists[1]):
            raise fault("length_pairs", "prompt_tokens and target_tokens are paired by index: give lists of one length")
        if lists and self.samples is not None and self.samples != len(lists[0]):
            raise fault("sample_count", "samples differs from the number of lengths")
        if self.lengths is not None:
            counted = sum(row[2] for row in self.lengths.histogram)
            if self.samples is not None and self.samples != counted:
                raise fault("sample_count", "samples differs from the histogram's sum")
            if counted > MAX_COUNT or any(row[0] + row[1] < 1 for row in self.lengths.histogram):
                raise fault("empty_sample", "a sample must hold at least one token")
        elif by_sample:
            if not lists and self.samples is None:
                raise fault("samples_missing", "samples is needed where the lengths are numbers")
            if lists:
                count = len(lists[0])
                prompts = self.prompt_tokens if isinstance(self.prompt_tokens, list) else [self.prompt_tokens or 0] * count
                targets = self.target_tokens if isinstance(self.target_tokens, list) else [self.target_tokens or 0] * count
                empty = any(prompt + target < 1 for prompt, target in zip(prompts, targets, strict=True))
            else:
                empty = (self.prompt_tokens or 0) + (self.target_tokens or 0) < 1  # type: ignore[operator]
            if empty:
                raise fault("empty_sample", "a sample must hold at least one token")
        elif self.samples is None:
            raise fault("data_missing", "give total_tokens, or samples with lengths")
        return self


class BatchSpec(Part):
    """Sequences a step."""

    micro_batch_size: Positive | None = None
    gradient_accumulation_steps: Positive | None = None
    global_batch_size: Positive | None = None


class PrecisionSpec(Part):
    """The precision recipe, and bytes a parameter where they differ from its default."""

    recipe: Literal["fp32", "bf16_mixed", "fp16_mixed", "bf16_pure", "fp8_mixed", "nvfp4_mixed"] | None = None
    weight_bytes: BytesPerParameter | None = None
    gradient_bytes: BytesPerParameter | None = None
    master_weight_bytes: BytesPerParameter | None = None
    optimizer_state_bytes: BytesPerParameter | None = None


OptimizerName = Literal[
    "adamw", "adamw_8bit", "paged_adamw_8bit", "paged_adamw", "adamw_4bit", "adafactor", "sgd", "sgd_momentum", "lion", "lion_8bit",
    "muon", "galore_adamw", "apollo",
]  # fmt: skip


class OptimizerSpec(Part):
    """The optimizer."""

    name: OptimizerName | None = None
    implementation: Literal["foreach", "fused"] | None = None


_Offload = Literal["none", "optimizer", "parameters", "activations"]


class SoftwareSpec(Part):
    """The training stack and its switches."""

    stack: Literal["hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry"] | None = None
    compile: Flag | None = None
    fused_loss: Flag | None = None
    logits_dtype_bytes: Literal[2, 4] | None = None
    checkpoint_reentrant: Flag | None = None
    cpu_offload: Annotated[list[_Offload], Field(max_length=4)] | None = None

    @field_validator("cpu_offload", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("cpu_offload")
    @classmethod
    def _none_alone(cls, value: list[str] | None) -> list[str] | None:
        if value and "none" in value and len(set(value)) > 1:
            raise fault("offload_none", "none stands alone")
        return value


class ParallelismSpec(Part):
    """How the run is laid out; data parallel is what is left of the devices."""

    tensor: Devices | None = None
    pipeline: Devices | None = None
    context: Devices | None = None
    expert: Devices | None = None
    sequence_parallel: Flag | None = None
    virtual_pipeline: Layers | None = None
    sharding: Literal["none", "zero1", "zero2", "zero3", "hybrid"] | None = None
    shard_group_size: Devices | None = None


class DeviceOverrideSpec(Part):
    """Figures of the caller's devices where they differ from the catalog; peaks are dense."""

    memory_bytes: Positive | None = None
    peak_bf16_dense_flops_per_second: PositiveAmount | None = None
    peak_fp16_dense_flops_per_second: PositiveAmount | None = None
    peak_fp8_dense_flops_per_second: PositiveAmount | None = None
    peak_fp32_dense_flops_per_second: PositiveAmount | None = None
    hbm_bytes_per_second: PositiveAmount | None = None


class HardwareSpec(Part):
    """Devices and the links between them (bytes per second and device, one direction)."""

    device: Name
    device_count: Devices | None = None
    devices_per_node: Devices | None = None
    intra_node_bytes_per_second: PositiveAmount | None = None
    inter_node_bytes_per_second: PositiveAmount | None = None
    device_override: DeviceOverrideSpec | None = None


class EfficiencySpec(Part):
    """What the caller knows of speed; left out, it is predicted."""

    mfu: Utilisation | None = None
    mfu_convention: Literal["6nd", "causal", "full_attention"] | None = None
    hfu: Utilisation | None = None
    step_seconds: PositiveAmount | None = None
    input_tokens_per_second: PositiveAmount | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [n for n in ("mfu", "hfu", "step_seconds", "input_tokens_per_second") if getattr(self, n) is not None]
        if len(given) > 1:
            raise fault("exactly_one", "give exactly one of mfu, hfu, step_seconds and input_tokens_per_second")
        return self


class RunSpec(Part):
    """A training run to be quoted. ``model`` and ``data`` are needed; the rest has stated defaults."""

    name: Name | None = None
    project: Name | None = None
    labels: Annotated[dict[Name, Annotated[str, Field(max_length=200, strict=True)]], Field(max_length=50)] | None = None
    external_ref: ExternalRef | None = None
    model: ModelSpec
    method: MethodSpec | None = None
    data: DataSpec
    sequence_length: Width | None = None
    decoder_sequence_length: Width | None = None
    batch: BatchSpec | None = None
    precision: PrecisionSpec | None = None
    optimizer: OptimizerSpec | None = None
    activation_checkpointing: Literal["none", "selective", "full"] | None = None
    attention: Literal["flash", "sdpa", "eager"] | None = None
    software: SoftwareSpec | None = None
    parallelism: ParallelismSpec | None = None
    hardware: HardwareSpec | None = None
    efficiency: EfficiencySpec | None = None
    checkpointing: CheckpointingSpec | None = None
    data_pipeline: DataPipelineSpec | None = None
    evaluation: EvaluationSpec | None = None
    reserves: ReservesSpec | None = None
    post_training: PostTrainingSpec | None = None
    rates: Annotated[list[RateSpec], Field(max_length=200)] | None = None
    interval_coverage: Coverage | None = None
    calibration: Annotated[Name, Field(pattern=r"^[A-Za-z0-9._:-]{1,100}$")] | None = None
