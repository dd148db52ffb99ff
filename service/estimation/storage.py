"""Bytes on disk: checkpoints as trainers write them, what is kept of them, data on its way to the devices, logs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from .architecture import Architecture
from .by_identity import ByIdentity
from .correction import Corrections
from .item_sums import whole
from .items import Item, unknown
from .parameters import Parameters, adapters_of
from .run import Lora, Run

# Measured on files of gpt2 and t5-base: header bytes a tensor of safetensors 102-141, of a torch.save AdamW state 589-600
# (tests/cases/oracle.jsonl, kind "ckpt"; the safetensors layout is 8 bytes of length, a JSON header, then the data).
SAFETENSORS_PREFIX_BYTES = 8
SAFETENSORS_BYTES_PER_TENSOR = 122
TORCH_SAVE_BYTES_PER_TENSOR = 595
NO_ADAPTER_SIZE = "adapters need the sizes of the model's matrices: only a parameter count is given"
STEP_COUNTER_BYTES = 4  # AdamW's `step`, one float a tensor

EXPORT_BYTES_PER_PARAMETER = 2  # a bf16 export, what inference engines and model hubs take
# The Llama 3 tokenizer reads 3.94 characters a token of English, Llama 2's 3.17 (arXiv:2407.21783, section 3.2); code and other
# alphabets need more tokens. UTF-8 text of mostly ASCII: one byte a character.
TEXT_BYTES_PER_TOKEN = 3.9
TEXT_BYTES_PER_TOKEN_LOW = 3.0
TEXT_BYTES_PER_TOKEN_HIGH = 4.8
# RefinedWeb keeps about a tenth of the documents it reads (arXiv:2306.01116, figure 2): raw data may be ten times the processed.
RAW_OVER_PROCESSED_HIGH_PRETRAIN = 10.0
UNSTATED_RETENTION = 3  # checkpoints kept where the spec gives neither cadence nor retention
UNSTATED_STEPS = 100_000  # of a run whose steps cannot be counted; its logs are a tenth of a gigabyte
FULL, WEIGHTS = "storage.checkpoint_full", "storage.checkpoint_weights"
RETAINED = "storage.checkpoints_retained"
DATA_TOGETHER = frozenset({"storage.raw_data", "storage.processed_data"})
NO_CORRECTIONS: Corrections = MappingProxyType({})
UNNAMED_DATA = ("the spec names no data version: a checkpoint cannot be traced to its data",)
ALL_KEPT = "all are kept, as trainers do unless told otherwise"
UNSTATED_RULE = f"neither cadence nor retention is given: the last {UNSTATED_RETENTION} are kept, the newest and two to fall back on"
LOG_BYTES_PER_STEP = 1_000  # one row of metrics a step, as text and as an event file
LOG_BYTES_PER_DEVICE = 1_000_000  # start-up output of every rank


@dataclass(frozen=True, slots=True)
class CheckpointBytes:
    """One checkpoint over all ranks, without and with the optimizer's state, and the bf16 weights alone for inference."""

    weights: float
    full: float
    export: float
    weights_formula: str
    full_formula: str
    assumptions: tuple[str, ...]


@ByIdentity
def tensors(architecture: Architecture) -> int:
    """How many tensors the model's file holds: weights, biases and vectors, a tied head once."""
    matrices = [m for layer in architecture.layers for m in layer.matrices] + list(architecture.outside)
    vectors = sum(len(layer.vectors) for layer in architecture.layers) + len(architecture.outside_vectors) + len(architecture.embeddings)
    if architecture.head is not None and not architecture.head_tied:
        matrices.append(architecture.head)
    return len(matrices) + sum(m.bias for m in matrices) + vectors


def checkpoint_bytes(run: Run, parameters: Parameters) -> CheckpointBytes:
    """What the trainer writes: weights as it holds them, and with the optimizer's states and master weights for a resume.

    Gradients are not saved. Under adapters only the adapters (and ``modules_to_save``) and their optimizer states are.
    """
    precision = run.precision
    trainable = float(parameters.trainable or 0)  # callers ask only where it is known
    lora = run.method.lora
    if lora is not None:
        saved, width = trainable, float(lora.adapter_bytes)
        count = _adapter_tensors(run.architecture, lora)
        what = "adapters and modules_to_save (PEFT saves nothing of the frozen base)"
    else:
        saved, width = float(parameters.total), precision.weight_bytes
        count = tensors(run.architecture)
        what = "all weights, frozen ones too"
    header = SAFETENSORS_PREFIX_BYTES + SAFETENSORS_BYTES_PER_TENSOR * count
    weights = saved * width + header
    states = trainable * (precision.optimizer_state_bytes + precision.master_weight_bytes)
    full = weights + states + (STEP_COUNTER_BYTES + TORCH_SAVE_BYTES_PER_TENSOR) * count
    export = saved * (width if lora is not None else min(width, EXPORT_BYTES_PER_PARAMETER)) + header
    return CheckpointBytes(
        weights=weights,
        full=full,
        export=export,
        weights_formula=f"saved parameters x {width:g} B + safetensors header ({SAFETENSORS_BYTES_PER_TENSOR} B a tensor)",
        full_formula=(
            f"weights + trainable x ({precision.optimizer_state_bytes:g} optimizer states + {precision.master_weight_bytes:g} "
            "master weights) B + torch.save overhead (0.6 kB a tensor)"
        ),
        assumptions=(
            f"saved: {what}, {width:g} B a parameter as the trainer holds them",
            "gradients are not saved; scheduler, random states and data position are a few kB a rank and left out",
        ),
    )


@ByIdentity
def _adapter_tensors(architecture: Architecture, lora: Lora) -> int:
    """Tensors of an adapter file, for its header alone: two an adapted matrix."""
    return 2 * sum(len(adapters_of(lora, layer)) for layer in architecture.layers)


def corrected(checkpoint: CheckpointBytes, corrections: Corrections) -> CheckpointBytes:
    """The checkpoint as own checkpoints say that it is."""
    full, weights = (corrections.get(code) for code in (FULL, WEIGHTS))
    return replace(
        checkpoint,
        full=checkpoint.full if full is None else checkpoint.full * full.factor,
        weights=checkpoint.weights if weights is None else checkpoint.weights * weights.factor,
    )


def checkpoint_items(
    run: Run, checkpoint: CheckpointBytes, plain: CheckpointBytes, corrections: Corrections = NO_CORRECTIONS
) -> list[Item]:
    """``storage.checkpoint_full`` and ``storage.checkpoint_weights``; ``plain`` is the checkpoint of the formulas alone."""
    version = UNNAMED_DATA
    if run.data.dataset_versions:
        version = ("belongs to data " + ", ".join(run.data.dataset_versions),)
    result = []
    for code, size, before, formula, words in (
        (FULL, checkpoint.full, plain.full, checkpoint.full_formula, checkpoint.assumptions + version),
        (WEIGHTS, checkpoint.weights, plain.weights, checkpoint.weights_formula, checkpoint.assumptions),
    ):
        item = Item(code=code, section="storage", quantity="bytes", expected=size, formula=formula, assumptions=words)
        factor = corrections.get(code)
        if factor is not None:
            item = item._replace(
                basis="calibrated",
                low=size * factor.low,
                high=size * factor.high,
                uncalibrated=before,
                n=factor.n,
                factor=factor.factor,
            )
        result.append(item)
    return result


@dataclass(frozen=True, slots=True)
class Saves:
    """How many checkpoints the whole run writes; ``None`` where the cadence is not known. ``reason`` says why, or what was assumed."""

    main: float | None
    weights_tier: float = 0.0
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The checkpoints of a run: the bytes of one (None where they are not known) and how many there are."""

    checkpoint: CheckpointBytes | None
    saves: Saves


def items(
    run: Run,
    written: Written,
    plain: Written,
    *,
    unique_tokens: float | None,
    steps: float | None,
    corrections: Corrections = NO_CORRECTIONS,
) -> list[Item]:
    """Every ``storage.*`` item of a run; amounts of the whole run on all devices. ``plain`` is what the formulas alone give."""
    if written.checkpoint is None or plain.checkpoint is None:
        result = [unknown(code, "storage", "bytes", NO_ADAPTER_SIZE) for code in (FULL, WEIGHTS)]
        retained = [
            unknown(f"storage.{part}", "storage", "bytes", NO_ADAPTER_SIZE, parent=RETAINED)
            for part in ("retained_main", "inference_export")
        ]
    else:
        result = checkpoint_items(run, written.checkpoint, plain.checkpoint, corrections)
        retained = _retained(run, written.checkpoint, written.saves, _kept(run, plain.checkpoint, plain.saves))
    kept = whole(RETAINED, "storage", "bytes", retained, parent="storage.total")
    total = [kept, *_data(run, unique_tokens), _logs(run, steps)]
    return [*result, *retained, *total, whole("storage.total", "storage", "bytes", total, together=DATA_TOGETHER)]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Checkpoints of each tier that are kept, and bytes of one of the main tier."""

    main: float | None
    main_bytes: float
    weights: float
    weights_bytes: float


def _limit(run: Run) -> int | None:
    """How many checkpoints of a tier are kept; None for all."""
    policy = run.checkpointing
    unstated = policy.retain_last is None and policy.interval_steps is None and policy.interval_seconds is None
    return UNSTATED_RETENTION if unstated else policy.retain_last


def _kept(run: Run, checkpoint: CheckpointBytes, saves: Saves) -> _Kept:
    limit = _limit(run)

    def of(written: float) -> float:
        return written if limit is None else min(written, limit)

    one = checkpoint.full if run.checkpointing.contents == "full" else checkpoint.weights
    return _Kept(None if saves.main is None else of(saves.main), one, of(saves.weights_tier), checkpoint.weights)


def _rule(run: Run) -> str:
    """Which checkpoints are kept."""
    if run.checkpointing.retain_last is not None:
        return f"the last {run.checkpointing.retain_last} are kept"
    return ALL_KEPT if _limit(run) is None else UNSTATED_RULE


def _retained(run: Run, checkpoint: CheckpointBytes, saves: Saves, plain: _Kept) -> list[Item]:
    policy, kept = run.checkpointing, _kept(run, checkpoint, saves)
    parts: list[Item] = []
    if kept.main is None or plain.main is None or saves.main is None:
        reason = saves.reason or "the cadence is not known"
        parts.append(unknown("storage.retained_main", "storage", "bytes", reason, parent=RETAINED))
    else:
        parts.append(
            Item(
                code="storage.retained_main",
                section="storage",
                quantity="bytes",
                expected=kept.main * kept.main_bytes,
                formula=f"{kept.main:g} checkpoints ({policy.contents}) x {kept.main_bytes:.6g} B",
                assumptions=(f"{saves.main:g} written; {_rule(run)}", *((saves.reason,) if saves.reason else ())),
                parent=RETAINED,
                uncalibrated=None if plain == kept else plain.main * plain.main_bytes,
            )
        )
    if saves.weights_tier:
        parts.append(
            Item(
                code="storage.retained_weights",
                section="storage",
                quantity="bytes",
                expected=kept.weights * kept.weights_bytes,
                formula=f"{kept.weights:g} light checkpoints x {kept.weights_bytes:.6g} B",
                assumptions=(f"{saves.weights_tier:g} written every {policy.weights_interval_steps} steps, kept by the same rule",),
                parent=RETAINED,
                uncalibrated=None if plain == kept else plain.weights * plain.weights_bytes,
            )
        )
    parts.append(
        Item(
            code="storage.inference_export",
            section="storage",
            quantity="bytes",
            expected=checkpoint.export,
            formula="saved parameters x 2 B (bf16) + header; the adapter file itself under LoRA",
            assumptions=("one export of the final model for evaluation and release",),
            parent=RETAINED,
        )
    )
    return parts


def _data(run: Run, unique_tokens: float | None) -> list[Item]:
    pipeline = run.data_pipeline
    parent = "storage.total"
    processed = _processed(run, unique_tokens)
    if pipeline.raw_bytes is not None:
        raw = _given("storage.raw_data", pipeline.raw_bytes, "data_pipeline.raw_bytes")
    elif processed.expected is None:
        raw = unknown(
            "storage.raw_data",
            "storage",
            "bytes",
            processed.reason or "",
            parent=parent,
        )
    else:
        most = RAW_OVER_PROCESSED_HIGH_PRETRAIN if run.method.objective == "pretrain" else 1.0
        raw = Item(
            code="storage.raw_data",
            section="storage",
            quantity="bytes",
            expected=processed.expected,
            low=processed.low,
            high=None if processed.high is None else processed.high * most,
            formula="at least the processed text once more",
            basis="prior",
            assumptions=(
                "data_pipeline.raw_bytes is not given: the raw corpus is taken as large as what is left of it after cleaning",
                "web crawls are up to ten times larger before filtering (RefinedWeb, arXiv:2306.01116)",
            ),
            parent=parent,
        )
    if unique_tokens is None:
        reason = "the number of distinct tokens is not known"
        tokenized = unknown("storage.tokenized_data", "storage", "bytes", reason, parent=parent)
        caches = unknown("storage.caches", "storage", "bytes", reason, parent=parent)
    else:
        tokenized = Item(
            code="storage.tokenized_data",
            section="storage",
            quantity="bytes",
            expected=unique_tokens * pipeline.token_bytes,
            formula=f"distinct tokens x {pipeline.token_bytes:g} B",
            assumptions=("every token is stored once; repeated epochs read it again",),
            parent=parent,
        )
        caches = Item(
            code="storage.caches",
            section="storage",
            quantity="bytes",
            expected=unique_tokens * pipeline.token_bytes * pipeline.cache_copies,
            formula=f"{pipeline.cache_copies:g} copies x distinct tokens x {pipeline.token_bytes:g} B",
            assumptions=("packed, shuffled or node-local copies of the tokenized data",),
            parent=parent,
        )
    return [raw, processed, tokenized, caches]


def _processed(run: Run, unique_tokens: float | None) -> Item:
    parent = "storage.total"
    given = run.data_pipeline.processed_bytes
    if given is not None:
        return _given("storage.processed_data", given, "data_pipeline.processed_bytes")
    if run.architecture.image_positions is not None:
        return unknown(
            "storage.processed_data",
            "storage",
            "bytes",
            "the bytes of an image are not known: give processed_bytes",
            parent=parent,
        )
    if unique_tokens is None:
        return unknown(
            "storage.processed_data",
            "storage",
            "bytes",
            "the number of distinct tokens is not known",
            parent=parent,
        )
    return Item(
        code="storage.processed_data",
        section="storage",
        quantity="bytes",
        expected=unique_tokens * TEXT_BYTES_PER_TOKEN,
        low=unique_tokens * TEXT_BYTES_PER_TOKEN_LOW,
        high=unique_tokens * TEXT_BYTES_PER_TOKEN_HIGH,
        formula=f"distinct tokens x {TEXT_BYTES_PER_TOKEN:g} B of uncompressed text",
        basis="prior",
        assumptions=("3.94 characters a token of English with a 128k vocabulary (Llama 3, arXiv:2407.21783, section 3.2)",),
        parent=parent,
    )


def _given(code: str, value: float, field: str) -> Item:
    return Item(
        code=code,
        section="storage",
        quantity="bytes",
        expected=value,
        formula=f"as given: {field}",
        basis="given",
        parent="storage.total",
    )


def _logs(run: Run, steps: float | None) -> Item:
    devices = run.hardware.device_count if run.hardware is not None else 1
    rows = float(UNSTATED_STEPS if steps is None else steps)
    counted = f"the number of steps is not known: {UNSTATED_STEPS:,} are taken for their logs" if steps is None else f"{rows:,.0f} steps"
    return Item(
        code="storage.logs",
        section="storage",
        quantity="bytes",
        expected=rows * LOG_BYTES_PER_STEP + float(devices) * LOG_BYTES_PER_DEVICE,
        formula=f"steps x {LOG_BYTES_PER_STEP} B + devices x {LOG_BYTES_PER_DEVICE} B",
        basis="prior",
        assumptions=(
            counted,
            "a row of metrics every step and a megabyte of output a rank; profiles and traces are not counted",
        ),
        parent="storage.total",
    )
