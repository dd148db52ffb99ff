"""Hardware figures that were given and change nothing in this run: said, never silently ignored."""

from __future__ import annotations

from collections.abc import Iterator

from service.catalog import devices as device_catalog
from service.estimation.items import Warning
from service.estimation.run import Run

from .spec import HardwareSpec


def warnings(spec: HardwareSpec | None, run: Run) -> list[Warning]:
    """One warning for every such figure. The catalog's own value, said aloud as an answer's spec does, is no mistake."""
    if spec is None or run.hardware is None:
        return []
    return [
        Warning(code="no_effect", detail=f"/hardware/{name} changes nothing: {why}", pointer=f"/hardware/{name}")
        for name, why in (*_links(spec, run), *_peaks(spec, run))
    ]


def _links(spec: HardwareSpec, run: Run) -> Iterator[tuple[str, str]]:
    assert run.hardware is not None
    count, per_node = run.hardware.device_count, run.hardware.devices_per_node
    entry = device_catalog.find(spec.device)
    if entry is None:
        return
    inter, intra = spec.inter_node_bytes_per_second, spec.intra_node_bytes_per_second
    if inter is not None and inter != entry.inter_node_bytes_per_second and count <= per_node:
        yield "inter_node_bytes_per_second", "all devices are in one node"
    if intra is not None and intra != entry.intra_node_bytes_per_second and (count == 1 or per_node == 1):
        yield "intra_node_bytes_per_second", "a node holds one device of the run"


def _peaks(spec: HardwareSpec, run: Run) -> Iterator[tuple[str, str]]:
    assert run.hardware is not None
    override, recipe = spec.device_override, run.precision.recipe
    if override is None:
        return
    sixteen = run.hardware.device.peak_bf16_flops_per_second is not None and recipe != "fp16_mixed"
    if override.peak_fp16_dense_flops_per_second is not None and sixteen:
        yield (
            "device_override/peak_fp16_dense_flops_per_second",
            f"{recipe} computes nothing in fp16, and an MFU divides by the bf16 peak",
        )
    if override.peak_fp8_dense_flops_per_second is not None and recipe not in ("fp8_mixed", "nvfp4_mixed"):
        yield "device_override/peak_fp8_dense_flops_per_second", f"{recipe} does not compute in fp8"
