"""A run: what the core is asked about, as frozen plain numbers with every default already filled in.

``service.specs.resolve`` makes it from a run spec; names and units are those of the HTTP contract. Fields of
``Layout`` and ``Batch`` may be numpy arrays of one shape (a search): every formula broadcasts over them. All other
fields are scalars, so a search runs once per combination of the categorical ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .architecture import Architecture
from .numeric import Number
from .recipes import RECIPES, Unit

MethodKind = Literal["full", "lora", "qlora", "frozen"]
Objective = Literal["pretrain", "sft", "dpo", "reward_model", "ppo", "grpo"]
Sharding = Literal["none", "zero1", "zero2", "zero3", "hybrid"]
Checkpointing = Literal["none", "selective", "full"]
AttentionKernel = Literal["flash", "sdpa", "eager"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters."""

    rank: int
    alpha: float
    target_modules: str | tuple[str, ...]  # "all-linear" or canonical / own names
    dropout: float = 0.0
    adapter_bytes: float = 4
    input_grads: bool = False
    modules_to_save: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How a frozen base is stored."""

    format: Literal["nf4", "fp4", "int8", "gptq_int4"]
    block_size: int = 64
    double_quantization: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What is trained."""

    kind: MethodKind = "full"
    objective: Objective = "pretrain"
    lora: Lora | None = None  # set for lora and qlora
    quantization: Quantization | None = None  # set for qlora
    frozen: tuple[str, ...] = ()  # embeddings | lm_head | attention | mlp | norms | layers:0-15

    @property
    def adapters(self) -> bool:
        """Whether adapters are trained on a frozen base."""
        return self.lora is not None

    @property
    def sequences_per_element(self) -> int:
        """Sequences in a batch element: two where it is a pair of a chosen and a rejected answer."""
        return 2 if self.objective == "dpo" else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What is read. Either ``total_tokens``, or ``histogram`` of samples by (prompt, target) length and epochs."""

    total_tokens: int | None = None  # input tokens read in the whole run
    histogram: tuple[tuple[int, int, int], ...] | None = None  # (prompt tokens, target tokens, samples)
    epochs: float = 1
    packing: Literal["none", "pad_to_max", "packed"] = "packed"
    cross_sample_attention: bool = False
    truncation: bool = True
    unique_tokens: int | None = None
    dataset_versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sequences a step. ``micro_batch_size`` is per data-parallel rank and forward."""

    micro_batch_size: Number
    gradient_accumulation_steps: Number
    global_batch_size: Number  # sequences a step = micro x accumulation x data parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Bytes a parameter, by recipe and stack or as the caller overrides them.

    Under adapters ``weight_bytes`` is the frozen base's and the others are the trained part's.
    """

    recipe: str  # a key of ``recipes.RECIPES``
    weight_bytes: float
    gradient_bytes: float
    master_weight_bytes: float
    optimizer_state_bytes: float  # sum of all states
    overridden: frozenset[str] = frozenset()  # which of the four the caller gave


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """The optimizer."""

    name: str = "adamw"  # a key of ``optimizers.OPTIMIZERS``
    implementation: Literal["foreach", "fused"] = "foreach"


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """The training stack and its switches; what a stack saves and fuses is data in ``stacks``."""

    stack: str = "hf_transformers"  # a key of ``stacks.STACKS``
    compile: bool = False
    fused_loss: bool = False
    logits_dtype_bytes: int | None = None  # None: as the stack does
    checkpoint_reentrant: bool = False
    fsdp_version: int | None = None  # None: the stack's own
    cpu_offload: frozenset[str] = frozenset()  # of "optimizer", "parameters", "activations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the run is laid out over devices. ``data`` is what is left of the devices."""

    tensor: Number = 1
    pipeline: Number = 1
    context: Number = 1
    expert: Number = 1
    expert_tensor: Number | None = (
        None  # ranks that one expert's matrices are divided over; None: what expert ranks leave of the tensor ranks
    )
    data: Number = 1
    virtual_pipeline: Number = 1
    expert_imbalance: float = 1.2  # tokens of the fullest expert rank over the mean, where experts are spread over ranks
    sequence_parallel: bool = False
    sharding: Sharding = "none"
    shard_group_size: Number | None = None  # ranks a hybrid shard spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An accelerator; peaks are dense. None where the device has no such unit or no source says."""

    name: str
    memory_bytes: int  # as the driver reports
    hbm_bytes_per_second: float | None = None
    peak_bf16_flops_per_second: float | None = None
    peak_fp16_flops_per_second: float | None = None
    peak_fp8_flops_per_second: float | None = None
    peak_fp4_flops_per_second: float | None = None
    peak_fp32_flops_per_second: float | None = None
    switched_link_devices: int = 1  # devices behind one switch of the fast link, whatever a server holds
    architecture: str | None = None  # "volta", "ampere", "ada", "hopper", "blackwell", "cdna3", "tpu", ...

    @property
    def reference_peak_flops_per_second(self) -> float | None:
        """The peak that every MFU divides by: dense bf16, fp16 where the device has no bf16."""
        return self.peak_bf16_flops_per_second or self.peak_fp16_flops_per_second

    def unit_peak_flops_per_second(self, unit: Unit) -> float | None:
        """The dense peak of a matrix unit; None where the device has none or no source says."""
        peaks = {
            "bf16": self.peak_bf16_flops_per_second,
            "fp16": self.peak_fp16_flops_per_second,
            "fp8": self.peak_fp8_flops_per_second,
            "fp4": self.peak_fp4_flops_per_second,
            "fp32": self.peak_fp32_flops_per_second,
        }
        return peaks[unit]

    def recipe_peak_flops_per_second(self, recipe: str) -> float | None:
        """The dense peak of the recipe's own matrix unit; the reference peak where it is not known."""
        return self.unit_peak_flops_per_second(RECIPES[recipe].matrix_unit) or self.reference_peak_flops_per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Devices and the links between them (bytes per second and device, one direction)."""

    device: Device
    device_count: int
    devices_per_node: int = 8
    intra_node_bytes_per_second: float | None = None
    inter_node_bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """What the caller says of speed: at most one field is set; none of them means that it is predicted."""

    mfu: float | None = None
    mfu_convention: Literal["6nd", "causal", "full_attention"] = "6nd"
    hfu: float | None = None
    step_seconds: float | None = None
    input_tokens_per_second: float | None = None
    pilot: bool = False  # the step time was measured by a pilot run

    @property
    def given(self) -> bool:
        """Whether the caller set one."""
        return any(v is not None for v in (self.mfu, self.hfu, self.step_seconds, self.input_tokens_per_second))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """What is saved, how often, and where to."""

    interval_steps: int | None = None
    interval_seconds: float | None = None
    contents: Literal["full", "weights"] = "full"
    state_dict: Literal["sharded", "full", "full_on_device"] = "full"  # who gathers what is sharded, and where
    retain_last: int | None = None  # None: all are kept
    weights_interval_steps: int | None = None  # a second, lighter tier
    asynchronous: bool = False
    storage_bytes_per_second: float | None = None
    load_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPipeline:
    """Bytes of the data on its way to the devices and the pipeline's speed."""

    raw_bytes: int | None = None
    processed_bytes: int | None = None
    token_bytes: float = 4
    cache_copies: float = 1
    input_tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSuite:
    """One evaluation, run `runs` times in the whole run (None: once every evaluation interval)."""

    name: str
    kind: Literal["validation", "downstream", "safety", "memorization", "human"]
    tokens: int = 0
    generated_tokens: int = 0
    runs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Evaluation during and after the run."""

    interval_steps: int | None = None
    tokens_per_evaluation: int | None = None
    suites: tuple[EvaluationSuite, ...] = ()
    device_hours: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationRun:
    """Small runs beside the main one."""

    name: str
    kind: str
    count: int
    device_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserves:
    """What is set aside for failure and exploration; None means the stated prior."""

    rerun_fraction: float | None = None
    ablation_fraction: float | None = None
    ablation_runs: tuple[AblationRun, ...] = ()
    interruptions_per_device_hour: float | None = None
    restart_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostTraining:
    """Generation, feedback and updates of DPO, reward modelling, PPO and GRPO."""

    prompts: int | None = None
    samples_per_prompt: int = 1
    prompt_tokens: int | None = None
    generated_tokens: int | None = None
    update_epochs: float = 1
    reference: Literal["model", "cached", "none"] = "model"
    generator: Literal["colocated", "separate"] = "colocated"  # where answers are generated
    reward_parameter_count: int | None = None
    tool_seconds_per_sample: float | None = None
    judge_tokens: int | None = None
    preference_pairs: int | None = None
    human_review_items: int | None = None
    human_seconds_per_item: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A price that the caller gave; `amount` is a decimal string, kept as it was given."""

    resource: Literal["device_hour", "cpu_hour", "storage_gib_month", "human_hour"]
    amount: str
    currency: str
    device: str | None = None
    source: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything an estimate depends on."""

    architecture: Architecture
    method: Method = field(default_factory=Method)
    data: Data
    sequence_length: int | None = None
    decoder_sequence_length: int | None = None
    batch: Batch
    precision: Precision
    optimizer: Optimizer = field(default_factory=Optimizer)
    activation_checkpointing: Checkpointing = "none"
    attention: AttentionKernel = "flash"
    software: Software = field(default_factory=Software)
    layout: Layout = field(default_factory=Layout)
    hardware: Hardware | None = None
    efficiency: Efficiency = field(default_factory=Efficiency)
    checkpointing: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    data_pipeline: DataPipeline = field(default_factory=DataPipeline)
    evaluation: Evaluation = field(default_factory=Evaluation)
    reserves: Reserves = field(default_factory=Reserves)
    post_training: PostTraining = field(default_factory=PostTraining)
    rates: tuple[Rate, ...] = ()
    interval_coverage: float = 0.8
