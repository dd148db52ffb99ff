"""Bytes on disk: checkpoints as trainers write them, what is kept of them, data on its way to the devices, logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from .architecture import Architecture
from .by_identity import ByIdentity
from .items import Item, unknown
from .parameters import adapters_of
from .run import Lora, Run
from .wholes import whole

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
LOG_BYTES_PER_STEP = 1_000  # one row of metrics a step, as text and as an event file
LOG_BYTES_PER_DEVICE = 1_000_000  # start-up output of every rank


class Counts(Protocol):
    """The parameter counts that storage needs."""

    @property
    def total(self) -> Any:
        """All parameters."""

    @property
    def trainable(self) -> Any:
        """Parameters that are trained."""

    @property
    def adapters(self) -> Any:
        """Adapter weights."""


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


def checkpoint_bytes(run: Run, parameters: Counts) -> CheckpointBytes:
    """What the trainer writes: weights as it holds them, and with the optimizer's states and master weights for a resume.

    Gradients are not saved. Under adapters only the adapters (and ``modules_to_save``) and their optimizer states are.
    """
    precision = run.precision
    trainable = float(parameters.trainable)
    adapters = run.method.adapters
    if adapters:
        assert run.method.lora is not None
        saved, width = trainable, float(run.method.lora.adapter_bytes)
        count = _adapter_tensors(run.architecture, run.method.lora)
        what = "adapters and modules_to_save (PEFT saves nothing of the frozen base)"
    else:
        saved, width = float(parameters.total), precision.weight_bytes
        count = tensors(run.architecture)
        what = "all weights, frozen ones too"
    header = SAFETENSORS_PREFIX_BYTES + SAFETENSORS_BYTES_PER_TENSOR * count
    weights = saved * width + header
    states = trainable * (precision.optimizer_state_bytes + precision.master_weight_bytes)
    full = weights + states + (STEP_COUNTER_BYTES + TORCH_SAVE_BYTES_PER_TENSOR) * count
    export = saved * (width if adapters else min(width, EXPORT_BYTES_PER_PARAMETER)) + header
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


def checkpoint_items(run: Run, checkpoint: CheckpointBytes) -> list[Item]:
    """``storage.checkpoint_full`` and ``storage.checkpoint_weights``."""
    version = (
        ("belongs to data " + ", ".join(run.data.dataset_versions),)
        if run.data.dataset_versions
        else ("the spec names no data version: a checkpoint cannot be traced to its data",)
    )
    return [
        Item(
            code="storage.checkpoint_full",
            section="storage",
            quantity="bytes",
            expected=checkpoint.full,
            formula=checkpoint.full_formula,
            assumptions=checkpoint.assumptions + version,
        ),
        Item(
            code="storage.checkpoint_weights",
            section="storage",
            quantity="bytes",
            expected=checkpoint.weights,
            formula=checkpoint.weights_formula,
            assumptions=checkpoint.assumptions,
        ),
    ]


@dataclass(frozen=True, slots=True)
class Saves:
    """How many checkpoints the whole run writes; ``None`` where the cadence is not known. ``reason`` says why, or what was assumed."""

    main: float | None
    weights_tier: float = 0.0
    reason: str | None = None


def items(
    run: Run,
    checkpoint: CheckpointBytes | None,
    saves: Saves,
    *,
    unique_tokens: float | None,
    steps: float | None,
) -> list[Item]:
    """Every ``storage.*`` item of a run; amounts of the whole run on all devices. No checkpoint: its size is not known."""
    total: list[Item] = []
    if checkpoint is None:
        result = [unknown(f"storage.checkpoint_{kind}", "storage", "bytes", NO_ADAPTER_SIZE) for kind in ("full", "weights")]
        parent = "storage.checkpoints_retained"
        retained = [
            unknown(f"storage.{part}", "storage", "bytes", NO_ADAPTER_SIZE, parent=parent) for part in ("retained_main", "inference_export")
        ]
    else:
        result = checkpoint_items(run, checkpoint)
        retained = _retained(run, checkpoint, saves)
    total.append(whole("storage.checkpoints_retained", "storage", "bytes", retained, parent="storage.total"))
    result += retained
    total += _data(run, unique_tokens)
    total.append(_logs(run, steps))
    result += total
    result.append(whole("storage.total", "storage", "bytes", total, together=frozenset({"storage.raw_data", "storage.processed_data"})))
    return result


def _retained(run: Run, checkpoint: CheckpointBytes, saves: Saves) -> list[Item]:
    parent = "storage.checkpoints_retained"
    policy = run.checkpointing
    limit = policy.retain_last
    rule = "all are kept, as trainers do unless told otherwise" if limit is None else f"the last {limit} are kept"
    if limit is None and policy.interval_steps is None and policy.interval_seconds is None:
        limit = UNSTATED_RETENTION
        rule = f"neither cadence nor retention is given: the last {limit} are kept, the newest and two to fall back on"
    one = checkpoint.full if policy.contents == "full" else checkpoint.weights
    parts: list[Item] = []
    if saves.main is None:
        parts.append(
            unknown(
                "storage.retained_main",
                "storage",
                "bytes",
                saves.reason or "the cadence is not known",
                parent=parent,
            )
        )
    else:
        kept = saves.main if limit is None else min(saves.main, limit)
        parts.append(
            Item(
                code="storage.retained_main",
                section="storage",
                quantity="bytes",
                expected=kept * one,
                formula=f"{kept:g} checkpoints ({policy.contents}) x {one:.6g} B",
                assumptions=(f"{saves.main:g} written; {rule}", *((saves.reason,) if saves.reason else ())),
                parent=parent,
            )
        )
    if saves.weights_tier:
        kept = saves.weights_tier if limit is None else min(saves.weights_tier, limit)
        parts.append(
            Item(
                code="storage.retained_weights",
                section="storage",
                quantity="bytes",
                expected=kept * checkpoint.weights,
                formula=f"{kept:g} light checkpoints x {checkpoint.weights:.6g} B",
                assumptions=(f"{saves.weights_tier:g} written every {policy.weights_interval_steps} steps, kept by the same rule",),
                parent=parent,
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
            parent=parent,
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
