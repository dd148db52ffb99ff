"""The run spec of the HTTP contract, section 3: what is asked about, with nothing filled in yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from service.estimation.optimizers import OPTIMIZERS
from service.estimation.recipes import RECIPES
from service.estimation.stacks import STACKS

from .fields import (
    MAX_COUNT,
    Amount,
    BytesPerParameter,
    Count,
    Coverage,
    Devices,
    Flag,
    Imbalance,
    Layers,
    Name,
    Part,
    Positive,
    PositiveAmount,
    Repeats,
    Utilisation,
    Width,
    fault,
    one_or_list,
)
from .spec_job import CheckpointingSpec, DataPipelineSpec, EvaluationSpec, PostTrainingSpec, RateSpec, ReservesSpec
from .spec_model import MethodSpec, ModelSpec

# Closed lists are the records' own names: a new record is a new value.
if TYPE_CHECKING:
    RecipeName: TypeAlias = str
    StackName: TypeAlias = str
    OptimizerName: TypeAlias = str
else:
    RecipeName, StackName, OptimizerName = (Literal[tuple(records)] for records in (RECIPES, STACKS, OPTIMIZERS))

_Lengths = Annotated[
    Annotated[Count, Tag("one")] | Annotated[list[Count], Field(min_length=1, max_length=1_000_000), Tag("list")],
    Discriminator(one_or_list),
]


class ExternalRef(Part):
    """The job's identity in the caller's own system."""

    system: Name
    """`slurm`, `kubernetes`, or your own system's name."""
    id: Name
    """What the system calls the job; Slurm: `cluster/number`, so that its accounting finds the quote."""


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
    """Its share of the mixture; any scale."""


class DataSpec(Part):
    """What is read: a number of tokens, or samples with their lengths."""

    total_tokens: Positive | None = None
    """Input tokens read in the whole run, all epochs together; or else `samples` with their lengths."""
    samples: Positive | None = None
    """Samples read in one epoch."""
    epochs: Repeats | None = None
    """How often the samples are read: 1 where it is left out; a fraction is allowed."""
    prompt_tokens: _Lengths | None = None
    """Tokens of a sample without a loss: one number for all, or a list."""
    target_tokens: _Lengths | None = None
    """Tokens of a sample that the loss counts: one number for all, or a list paired with `prompt_tokens`."""
    lengths: LengthsSpec | None = None
    packing: Literal["none", "pad_to_max", "packed"] | None = None
    """`none` pads to the longest of a micro-batch, `pad_to_max` to `sequence_length`, `packed` joins samples."""
    cross_sample_attention: Flag | None = None
    """Whether packed samples see each other."""
    truncation: Flag | None = None
    """Whether what exceeds `sequence_length` is cut; true where it is left out."""
    unique_tokens: Positive | None = None
    """Distinct tokens, where some are repeated."""
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
            if counted > MAX_COUNT:
                raise fault("sample_count", f"the histogram holds more than {MAX_COUNT} samples")
            if any(row[0] + row[1] < 1 for row in self.lengths.histogram):
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
    """Sequences of one data-parallel rank in one forward pass."""
    gradient_accumulation_steps: Positive | None = None
    """Forward passes of a rank in one optimizer step."""
    global_batch_size: Positive | None = None
    """Sequences of all ranks in one optimizer step; decides `gradient_accumulation_steps`."""


class PrecisionSpec(Part):
    """The precision recipe, and bytes a parameter where they differ from its default."""

    recipe: RecipeName | None = None
    weight_bytes: BytesPerParameter | None = None
    """Under `lora` and `qlora` those of the frozen base."""
    gradient_bytes: BytesPerParameter | None = None
    master_weight_bytes: BytesPerParameter | None = None
    optimizer_state_bytes: BytesPerParameter | None = None
    """All states of a parameter together."""


class OptimizerSpec(Part):
    """The optimizer."""

    name: OptimizerName | None = None
    implementation: Literal["foreach", "fused"] | None = None


_Offload = Literal["none", "optimizer", "parameters", "activations"]


class SoftwareSpec(Part):
    """The training stack and its switches."""

    stack: StackName | None = None
    """`fsdp_native`: torchtitan, torchtune, litgpt and the like."""
    compile: Flag | None = None
    """Whether `torch.compile` is used."""
    fused_loss: Flag | None = None
    """Whether the logits never exist whole."""
    logits_dtype_bytes: Literal[2, 4] | None = None
    """Bytes of a logit as the loss reads it."""
    checkpoint_reentrant: Flag | None = None
    """Whether activation checkpointing is the reentrant kind; left out: where `hf_transformers` trains adapters, as PEFT sets it up."""
    fsdp_version: Literal[1, 2] | None = None
    """Which of PyTorch's FSDPs shards (accelerate's `fsdp_version`): `FullyShardedDataParallel` or `fully_shard`. Decides memory alone."""
    cpu_offload: Annotated[list[_Offload], Field(max_length=4)] | None = None
    """What is kept in the host's memory: one, or a list."""

    @field_validator("cpu_offload", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("cpu_offload")
    @classmethod
    def _none_alone(cls, value: list[str] | None) -> list[str] | None:
        distinct = None if value is None else list(dict.fromkeys(value))
        if distinct and "none" in distinct and len(distinct) > 1:
            raise fault("offload_none", "none stands alone")
        return distinct


class ParallelismSpec(Part):
    """How the run is laid out; data parallel is what is left of the devices."""

    tensor: Devices | None = None
    """Ranks that share each matrix."""
    pipeline: Devices | None = None
    """Stages."""
    context: Devices | None = None
    """Ranks that share each sequence."""
    expert: Devices | None = None
    """Ranks that share the experts of a layer."""
    expert_tensor: Devices | None = None
    """Ranks that share the matrices of each expert, beside `expert`; left out: what `expert` leaves of `tensor`."""
    expert_imbalance: Imbalance | None = None
    """Tokens of the fullest expert rank over the mean, where experts are shared: 1.2 where it is left out. Decides memory alone."""
    sequence_parallel: Flag | None = None
    """Whether tensor ranks share the sequence outside the matrices."""
    virtual_pipeline: Layers | None = None
    """Pieces of the model on each stage (interleaved schedule)."""
    sharding: Literal["none", "zero1", "zero2", "zero3", "hybrid"] | None = None
    """`none` is DDP, `zero3` FSDP's full shard, `hybrid` a full shard within `shard_group_size` ranks."""
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
    """A name of `GET /v1/devices`."""
    device_count: Devices | None = None
    """All devices of the run; 1 where it is left out."""
    devices_per_node: Devices | None = None
    """8 where it is left out."""
    intra_node_bytes_per_second: PositiveAmount | None = None
    inter_node_bytes_per_second: PositiveAmount | None = None
    device_override: DeviceOverrideSpec | None = None


class EfficiencySpec(Part):
    """What the caller knows of speed; left out, it is predicted."""

    mfu: Utilisation | None = None
    """Share of the dense peak that the model's FLOPs reach, 0.4 for 40 %."""
    mfu_convention: Literal["6nd", "causal", "full_attention"] | None = None
    """Which FLOPs `mfu` counts; `6nd` where it is left out."""
    hfu: Utilisation | None = None
    """The same with recomputed FLOPs counted."""
    step_seconds: PositiveAmount | None = None
    """Wall clock of one optimizer step."""
    input_tokens_per_second: PositiveAmount | None = None
    """Of the whole job, all devices together."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [n for n in ("mfu", "hfu", "step_seconds", "input_tokens_per_second") if getattr(self, n) is not None]
        if len(given) > 1:
            raise fault("exactly_one", "give exactly one of mfu, hfu, step_seconds and input_tokens_per_second")
        return self


class RunSpec(Part):
    """A training run to be quoted. ``model`` and ``data`` are needed; the rest has stated defaults."""

    name: Name | None = None
    """For people."""
    project: Name | None = None
    """What `GET /v1/projects/{project_id}/ledger` gathers by."""
    labels: Annotated[dict[Name, Annotated[str, Field(max_length=200, strict=True)]], Field(max_length=50)] | None = None
    """Anything to filter and group by; `team` and `cluster` have calibrations of their own."""
    external_ref: ExternalRef | None = None
    model: ModelSpec
    method: MethodSpec | None = None
    data: DataSpec
    sequence_length: Width | None = None
    """Tokens of the longest sequence that is trained on; of an encoder-decoder the encoder's."""
    decoder_sequence_length: Width | None = None
    """Of an encoder-decoder; as long as `sequence_length` where it is left out."""
    batch: BatchSpec | None = None
    precision: PrecisionSpec | None = None
    optimizer: OptimizerSpec | None = None
    activation_checkpointing: Literal["none", "selective", "full"] | None = None
    """`full` keeps a block's input alone, `selective` recomputes a part, as the stack does it; `none` where it is left out."""
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
    """How often the truth should lie between `low` and `high`: 0.8 where it is left out."""
    calibration: Annotated[Name, Field(pattern=r"^[A-Za-z0-9._:-]{1,100}$")] | None = None
    """`latest` where it is left out, `none`, or a version of `GET /v1/calibrations`."""
