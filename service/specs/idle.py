"""Figures of hardware and shape that were given and change nothing in this run: said, never silently ignored."""

from __future__ import annotations

from collections.abc import Iterator

from service.catalog import devices as device_catalog
from service.estimation.recipes import RECIPES
from service.estimation.run import Run
from service.estimation.warnings import Warning, no_effect

from .spec import HardwareSpec, RunSpec
from .spec_model import ModelSpec

_SPEED_GIVEN = "efficiency gives the speed, so that none is predicted from it (only the hours of alternatives are)"


def warnings(spec: RunSpec, run: Run) -> list[Warning]:
    """One warning for every such figure. The catalog's own value, said aloud as an answer's spec does, is no mistake."""
    found = [(f"/model/{name}", why) for name, why in (*_shape(spec.model, run), *_stored(spec, run))]
    if spec.hardware is not None:
        found += [(f"/hardware/{name}", why) for name, why in (*_links(spec.hardware, run), *_override(spec.hardware, run))]
    return [no_effect(pointer, why) for pointer, why in found]


def _shape(spec: ModelSpec, run: Run) -> Iterator[tuple[str, str]]:
    if run.architecture.shape_known:
        return
    for name in ModelSpec.model_fields:
        if name not in ("parameter_count", "active_parameter_count") and getattr(spec, name) is not None:
            yield name, "without both num_hidden_layers and hidden_size there is no shape"


def _stored(spec: RunSpec, run: Run) -> Iterator[tuple[str, str]]:
    """How a checkpoint is stored is not how a run holds its weights: only ``method.quantization`` says that a base stays quantized."""
    config = spec.model.hf_config or {}
    said = spec.method is not None and spec.method.quantization is not None and spec.method.quantization.format is not None
    nested = config.get("text_config")
    for where, holder in (("hf_config", config), ("hf_config/text_config", nested if isinstance(nested, dict) else {})):
        if holder.get("quantization_config") and not said:
            kept = run.method.quantization
            held = f"at {run.precision.weight_bytes:g} bytes a parameter" if kept is None else f"as {kept.format}, the default"
            yield f"{where}/quantization_config", f"weights are held {held}; method.quantization and precision say otherwise"


def _links(spec: HardwareSpec, run: Run) -> Iterator[tuple[str, str]]:
    assert run.hardware is not None
    count, per_node = run.hardware.device_count, run.hardware.devices_per_node
    entry = device_catalog.find(spec.device)
    if entry is None:
        return
    inter, intra = spec.inter_node_bytes_per_second, spec.intra_node_bytes_per_second
    if inter is not None and inter != entry.inter_node_bytes_per_second:
        if count <= per_node:
            yield "inter_node_bytes_per_second", "all devices are in one node"
        elif run.efficiency.given:
            yield "inter_node_bytes_per_second", _SPEED_GIVEN
    if intra is not None and intra != entry.intra_node_bytes_per_second:
        if count == 1 or per_node == 1:
            yield "intra_node_bytes_per_second", "a node holds one device of the run"
        elif run.efficiency.given:
            yield "intra_node_bytes_per_second", _SPEED_GIVEN


def _override(spec: HardwareSpec, run: Run) -> Iterator[tuple[str, str]]:
    assert run.hardware is not None
    override, recipe = spec.device_override, run.precision.recipe
    if override is None:
        return
    sixteen = run.hardware.device.peak_bf16_flops_per_second is not None and RECIPES[recipe].matrix_unit != "fp16"
    if override.peak_fp16_dense_flops_per_second is not None and sixteen:
        yield (
            "device_override/peak_fp16_dense_flops_per_second",
            f"{recipe} computes nothing in fp16, and an MFU divides by the bf16 peak",
        )
    unit = RECIPES[recipe].matrix_unit
    for kind in ("fp8", "fp32"):
        if getattr(override, f"peak_{kind}_dense_flops_per_second") is not None and unit != kind:
            yield f"device_override/peak_{kind}_dense_flops_per_second", f"{recipe} does not compute in {kind}"
    if override.hbm_bytes_per_second is not None and run.efficiency.given and not _decodes(run):
        yield "device_override/hbm_bytes_per_second", _SPEED_GIVEN


def _decodes(run: Run) -> bool:
    """Whether tokens are generated, at the pace of the memory."""
    sampled = run.post_training.prompts is not None or bool(run.post_training.preference_pairs)
    return sampled or any(suite.generated_tokens for suite in run.evaluation.suites)
