"""From a run spec to a ``Run``: every default filled in and stated, every contradiction named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from service.catalog import devices as device_catalog
from service.estimation import parameters
from service.estimation import run as r
from service.estimation.architecture import Architecture
from service.estimation.optimizers import state_bytes
from service.estimation.recipes import RECIPES
from service.estimation.stacks import STACKS
from service.estimation.warnings import Warning, no_effect
from service.kit.documents import nearest

from . import counted, idle, layouts, memory_fields, resolve_job
from . import precision as widths
from .errors import spec_error
from .fields import MAX_COUNT
from .resolve_data import resolve_data
from .resolve_model import resolve_model
from .section import Section
from .spec import DeviceOverrideSpec, HardwareSpec, RunSpec
from .spec_model import MethodSpec

_FIGURES = ("weight_bytes", "gradient_bytes", "master_weight_bytes", "optimizer_state_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A run, and the spec that describes it in full."""

    run: r.Run
    spec: dict[str, Any]  # as received, every default filled in; posted again it gives the same run
    provenance: dict[str, str]  # JSON Pointer -> given | default | derived | catalog | preset | hf_config | parameter_count
    asked: RunSpec
    noticed: tuple[Warning, ...]  # while the defaults were filled in

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """What the caller should know of the spec; worked out when asked, since what is only tried out is not read by anyone."""
        spec, run = self.asked, self.run
        return (*self.noticed, *idle.warnings(spec, run), *layouts.warnings(run), *memory_fields.warnings(spec, run))


def resolve(spec: RunSpec) -> Resolved:
    """Fill in every default of a checked spec."""
    provenance: dict[str, str] = {}
    warnings: list[Warning] = []
    top = Section(spec, "", provenance)
    for name in ("name", "project", "labels"):
        top.take(name)
    if spec.external_ref is not None:
        Section(spec.external_ref, "/external_ref", provenance, top.out).take_all()

    architecture = resolve_model(spec.model, top, provenance, warnings)
    contradiction = counted.contradiction(architecture)
    if contradiction is not None:
        warnings.append(Warning(code="count_contradicts_shape", detail=contradiction, pointer="/model/parameter_count"))
    method = _method(spec.method, architecture, top, provenance, warnings)
    sequence_length = top.take("sequence_length", architecture.image_positions, "derived")
    data = resolve_data(spec.data, architecture, sequence_length, top, provenance, warnings)
    decoder_length = None
    if architecture.encoder_decoder:
        decoder_length = top.take("decoder_sequence_length", sequence_length)
    elif spec.decoder_sequence_length is not None:
        top.take("decoder_sequence_length")
        warnings.append(no_effect("/decoder_sequence_length", "the model has no decoder of its own"))

    software_section = Section(spec.software, "/software", provenance)
    stack: str = software_section.take("stack", "hf_transformers")
    hardware = _hardware(spec.hardware, provenance, warnings)
    precision = Section(spec.precision, "/precision", provenance, top.out, "precision")
    optimizer_section = Section(spec.optimizer, "/optimizer", provenance, top.out, "optimizer")
    optimizer = r.Optimizer(
        name=optimizer_section.take("name", "adamw"), implementation=optimizer_section.take("implementation", "foreach")
    )
    resolved_precision = _precision(precision, stack, optimizer.name, method, architecture, hardware, warnings)
    checkpointing: r.Checkpointing = top.take("activation_checkpointing", "none")
    attention: r.AttentionKernel = top.take("attention", "flash")
    software = _software(software_section, stack, method, checkpointing, top, warnings)
    layout = _layout(spec, stack, hardware, top, provenance, warnings)
    batch = _batch(spec, layout, top, provenance, warnings)
    if hardware is not None:
        top.out["hardware"] = hardware[1]

    run = r.Run(
        architecture=architecture,
        method=method,
        data=data,
        sequence_length=sequence_length,
        decoder_sequence_length=decoder_length,
        batch=batch,
        precision=resolved_precision,
        optimizer=optimizer,
        activation_checkpointing=checkpointing,
        attention=attention,
        software=memory_fields.effective(software, layout),
        layout=layout,
        hardware=None if hardware is None else hardware[0],
        efficiency=resolve_job.efficiency(spec, top, provenance),
        checkpointing=resolve_job.checkpointing(spec, top, provenance),
        data_pipeline=resolve_job.data_pipeline(spec, top, provenance),
        evaluation=resolve_job.evaluation(spec, top, provenance),
        reserves=resolve_job.reserves(spec, top, provenance),
        post_training=resolve_job.post_training(spec, method, top, provenance),
        rates=resolve_job.rates(spec, top, provenance),
        interval_coverage=top.take("interval_coverage", 0.8),
    )
    top.take("calibration", "latest")
    try:
        trained = parameters.count(run).trainable
    except parameters.UnknownTarget as error:
        where = "/method/" + ("frozen" if error.field == "frozen" else f"lora/{error.field}")
        raise spec_error(where, "names no part of this model; it has " + ", ".join(error.choices[:40])) from None
    if trained == 0 and method.kind == "frozen":
        raise spec_error("/method/frozen", "freezes every parameter of this model: nothing is left to train")
    return Resolved(
        run=run,
        spec=top.out,
        provenance=provenance,
        asked=spec,
        noticed=tuple(warnings),
    )


def _method(
    spec: MethodSpec | None, architecture: Architecture, top: Section, provenance: dict[str, str], warnings: list[Warning]
) -> r.Method:
    section = Section(spec, "/method", provenance, top.out, "method")
    kind: r.MethodKind = section.take("kind", "full")
    objective: r.Objective = section.take("objective", "pretrain")
    if kind == "frozen":
        return r.Method(kind=kind, objective=objective, frozen=tuple(section.take("frozen")))
    if kind == "full":
        return r.Method(kind=kind, objective=objective)
    part = Section(None if spec is None else spec.lora, "/method/lora", provenance, section.out, "lora")
    rank: int = part.take("rank", 8)
    alpha: float = part.take("alpha", float(rank))
    targets = part.take("target_modules", "all-linear")
    saved = part.take("modules_to_save", [])
    lora = r.Lora(
        rank=rank,
        alpha=alpha,
        target_modules=targets if isinstance(targets, str) else tuple(targets),
        dropout=part.take("dropout", 0.0),
        adapter_bytes=part.take("adapter_bytes", 4),
        input_grads=part.take("input_grads", False),
        modules_to_save=tuple(saved),
    )
    if alpha != float(rank):
        warnings.append(no_effect("/method/lora/alpha", "it scales the adapters' output and costs nothing"))
    quantization = None
    given = None if spec is None else spec.quantization
    if kind == "qlora" or given is not None:
        quant = Section(given, "/method/quantization", provenance, section.out, "quantization")
        form = quant.take("format", "nf4")
        if form in ("nf4", "fp4"):
            quantization = r.Quantization(
                format=form, block_size=quant.take("block_size", 64), double_quantization=quant.take("double_quantization", False)
            )
        else:
            block = quant.take("block_size", 128) if form == "gptq_int4" else quant.take("block_size")
            if form == "int8" and block is not None:
                warnings.append(no_effect("/method/quantization/block_size", "int8 keeps one scale a row"))
            if quant.take("double_quantization", False):
                warnings.append(no_effect("/method/quantization/double_quantization", f"{form} has no second quantization"))
            quantization = r.Quantization(format=form, block_size=block or 128)
    return r.Method(kind=kind, objective=objective, lora=lora, quantization=quantization)


def _hardware(spec: HardwareSpec | None, provenance: dict[str, str], warnings: list[Warning]) -> tuple[r.Hardware, dict[str, Any]] | None:
    if spec is None:
        return None
    section = Section(spec, "/hardware", provenance)
    entry = device_catalog.find(spec.device)
    if entry is None:
        known = device_catalog.devices()
        raise spec_error("/hardware/device", "is not a device of GET /v1/devices" + nearest(spec.device, list(known)))
    section.take("device")
    device = entry.device
    count: int = section.take("device_count", 1)
    per_node: int = section.take("devices_per_node", 8)
    intra = section.take("intra_node_bytes_per_second", entry.intra_node_bytes_per_second, "catalog")
    inter = section.take("inter_node_bytes_per_second", entry.inter_node_bytes_per_second, "catalog")
    if spec.device_override is not None:
        override = Section(spec.device_override, "/hardware/device_override", provenance, section.out, "device_override")
        override.take_all()
        device = _overridden(device, spec.device_override, warnings)
    hardware = r.Hardware(
        device=device, device_count=count, devices_per_node=per_node, intra_node_bytes_per_second=intra, inter_node_bytes_per_second=inter
    )
    return hardware, section.out


def _overridden(device: r.Device, override: DeviceOverrideSpec, warnings: list[Warning]) -> r.Device:
    changes: dict[str, Any] = {}
    for name in ("memory_bytes", "hbm_bytes_per_second"):
        if getattr(override, name) is not None:
            changes[name] = getattr(override, name)
    for kind in ("bf16", "fp16", "fp8", "fp32"):
        given = getattr(override, f"peak_{kind}_dense_flops_per_second")
        if given is None:
            continue
        changes[f"peak_{kind}_flops_per_second"] = given
        dense = getattr(device, f"peak_{kind}_flops_per_second")
        if dense is not None and 1.9 * dense <= given <= 2.1 * dense:
            warnings.append(
                Warning(
                    code="sparse_peak",
                    detail=f"{given:.4g} is twice the dense {kind} peak of {device.name} ({dense:.4g}): data sheets print the peak with "
                    "structured sparsity, which training does not use",
                    pointer=f"/hardware/device_override/peak_{kind}_dense_flops_per_second",
                )
            )
    return replace(device, **changes)


def _precision(
    section: Section,
    stack: str,
    optimizer: str,
    method: r.Method,
    architecture: Architecture,
    hardware: tuple[r.Hardware, dict[str, Any]] | None,
    warnings: list[Warning],
) -> r.Precision:
    no_bf16 = hardware is not None and hardware[0].device.peak_bf16_flops_per_second is None
    recipe: str = section.take("recipe", "fp16_mixed" if no_bf16 else "bf16_mixed")
    weights, gradients, master, state = RECIPES[recipe].widths or STACKS[stack].mixed_widths
    if method.lora is not None:
        # The frozen base has no gradients; where a stack keeps no master copy the trained part follows the adapters' own width.
        weights = float(RECIPES[recipe].activation_bytes)
        if method.quantization is not None:
            weights = widths.quantized_weight_bytes(method.quantization)
        if master == 0:
            gradients = state = method.lora.adapter_bytes
    states, assumed, bounded = state_bytes(optimizer, state, architecture)
    if bounded and assumed is not None and section.given("optimizer_state_bytes") is None:
        warnings.append(Warning(code="optimizer_states_bounded", detail=assumed, pointer="/optimizer/name"))
    defaults = dict(zip(_FIGURES, map(float, (weights, gradients, master, states)), strict=True))
    values: dict[str, float] = {name: section.take(name, value) for name, value in defaults.items()}
    overridden = frozenset(name for name, value in values.items() if value != defaults[name])
    return r.Precision(recipe=recipe, overridden=overridden, **values)


def _software(section: Section, stack: str, method: r.Method, checkpointing: str, top: Section, warnings: list[Warning]) -> r.Software:
    offload = section.take("cpu_offload", "none")
    if section.given("cpu_offload") == ["none"]:
        section.out["cpu_offload"] = "none"
    reentrant = method.adapters and STACKS[stack].adapters_reenter
    software = r.Software(
        stack=stack,
        compile=section.take("compile", False),
        fused_loss=section.take("fused_loss", False),
        logits_dtype_bytes=section.take("logits_dtype_bytes"),
        checkpoint_reentrant=section.take("checkpoint_reentrant", reentrant),
        fsdp_version=section.take("fsdp_version"),
        cpu_offload=frozenset() if offload in ("none", ["none"]) else frozenset(offload),
    )
    if software.checkpoint_reentrant is not reentrant and checkpointing == "none":
        warnings.append(no_effect("/software/checkpoint_reentrant", "activations are not checkpointed"))
    if software.logits_dtype_bytes is not None and not (software.compile and software.logits_dtype_bytes <= 2):
        warnings.append(no_effect("/software/logits_dtype_bytes", "only a compiled loss keeps the width that its logits have"))
    top.out["software"] = section.out
    return software


def _layout(
    spec: RunSpec,
    stack: str,
    hardware: tuple[r.Hardware, dict[str, Any]] | None,
    top: Section,
    provenance: dict[str, str],
    warnings: list[Warning],
) -> r.Layout:
    section = Section(spec.parallelism, "/parallelism", provenance, top.out, "parallelism")
    tensor: int = section.take("tensor", 1)
    pipeline: int = section.take("pipeline", 1)
    context: int = section.take("context", 1)
    expert: int = section.take("expert", 1)
    expert_tensor: int | None = None if section.given("expert_tensor") is None else section.take("expert_tensor")
    imbalance: float = section.take("expert_imbalance", r.Layout().expert_imbalance)
    model_parallel = tensor * pipeline * context
    devices = model_parallel if hardware is None else hardware[0].device_count
    if devices % model_parallel:
        raise spec_error("/parallelism", f"tensor x pipeline x context = {model_parallel} does not divide the {devices} devices")
    data = devices // model_parallel
    sequence_parallel: bool = section.take("sequence_parallel", False)
    virtual: int = section.take("virtual_pipeline", 1)
    sharding: r.Sharding = section.take("sharding", STACKS[stack].default_sharding)
    group = section.given("shard_group_size")
    if sharding == "hybrid":
        per_node = 8 if hardware is None else hardware[0].devices_per_node
        group = section.take("shard_group_size", min(data, per_node))
    elif group is not None:
        section.take("shard_group_size")
        warnings.append(no_effect("/parallelism/shard_group_size", "only hybrid sharding has groups"))
        group = None
    if virtual > 1 and pipeline == 1:
        warnings.append(no_effect("/parallelism/virtual_pipeline", "there is one pipeline stage"))
    if sequence_parallel and tensor == 1:
        warnings.append(no_effect("/parallelism/sequence_parallel", "it divides activations over tensor-parallel ranks, and there is one"))
    if expert_tensor is not None and devices // pipeline % (expert * expert_tensor):
        raise spec_error(
            "/parallelism/expert_tensor",
            f"expert x expert_tensor = {expert * expert_tensor} does not divide the {devices // pipeline} devices of a pipeline stage",
        )
    if expert > devices:
        warnings.append(
            Warning(
                code="expert_parallel_exceeds_devices", detail=f"{expert} expert ranks on {devices} devices", pointer="/parallelism/expert"
            )
        )
    return r.Layout(
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        expert_tensor=expert_tensor,
        data=data,
        virtual_pipeline=virtual,
        expert_imbalance=imbalance,
        sequence_parallel=sequence_parallel,
        sharding=sharding,
        shard_group_size=group,
    )


def _batch(spec: RunSpec, layout: r.Layout, top: Section, provenance: dict[str, str], warnings: list[Warning]) -> r.Batch:
    """Sequences a step: global = micro x accumulation x data parallel; what is left out follows from the rest."""
    section = Section(spec.batch, "/batch", provenance, top.out, "batch")
    total = section.given("global_batch_size")
    accumulation = section.given("gradient_accumulation_steps")
    if total is None:
        micro: int = section.take("micro_batch_size", 1)
        accumulation = section.take("gradient_accumulation_steps", 1)
        if micro * accumulation * layout.data > MAX_COUNT:
            # The echo could not be posted again.
            raise spec_error(
                "/batch",
                f"micro_batch_size x gradient_accumulation_steps x {layout.data} data-parallel ranks is over {MAX_COUNT} sequences",
            )
        total = section.take("global_batch_size", micro * accumulation * layout.data, "derived")
        return r.Batch(micro_batch_size=micro, gradient_accumulation_steps=accumulation, global_batch_size=total)
    implied = 1 if accumulation is None else -(-total // (accumulation * layout.data))
    micro = section.take("micro_batch_size", implied, "default" if accumulation is None else "derived")
    needed = -(-total // (micro * layout.data))
    accumulation = section.take("gradient_accumulation_steps", needed, "derived")
    section.take("global_batch_size")
    if accumulation != needed:
        raise spec_error(
            "/batch/global_batch_size",
            f"contradicts micro_batch_size x gradient_accumulation_steps x {layout.data} data-parallel ranks "
            f"= {micro * accumulation * layout.data}",
        )
    if total != micro * accumulation * layout.data:
        warnings.append(
            Warning(
                code="uneven_batch",
                detail=f"the global batch of {total} is not a multiple of {micro} x {layout.data} data-parallel ranks: the last "
                "micro-batch of a step is not full",
                pointer="/batch/global_batch_size",
            )
        )
    return r.Batch(micro_batch_size=micro, gradient_accumulation_steps=accumulation, global_batch_size=total)
