"""Devices by name, from ``data/devices.json``: memory as the driver reports it, dense peaks, links."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from service.estimation.run import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDevice:
    """One catalog entry: the core's device, its usual links, and the whole record with sources."""

    device: Device
    intra_node_bytes_per_second: float | None
    inter_node_bytes_per_second: float | None
    record: dict[str, Any]


def _device(record: dict[str, Any]) -> Device:
    return Device(
        name=record["name"],
        memory_bytes=record["memory_bytes"],
        hbm_bytes_per_second=record["hbm_bytes_per_second"],
        peak_bf16_flops_per_second=record["peak_bf16_dense_flops_per_second"],
        peak_fp16_flops_per_second=record["peak_fp16_dense_flops_per_second"],
        peak_fp8_flops_per_second=record["peak_fp8_dense_flops_per_second"],
        peak_fp4_flops_per_second=record["peak_fp4_dense_flops_per_second"],
        peak_fp32_flops_per_second=record["peak_fp32_dense_flops_per_second"],
        architecture=record["architecture"],
        switched_link_devices=record["switched_link_devices"] or 1,
    )


@cache
def devices() -> dict[str, CatalogDevice]:
    """All devices by name, in catalog order."""
    text = resources.files("service.catalog").joinpath("data/devices.json").read_text(encoding="utf-8")
    return {
        record["name"]: CatalogDevice(
            device=_device(record),
            intra_node_bytes_per_second=record["intra_node_bytes_per_second"],
            inter_node_bytes_per_second=record["inter_node_bytes_per_second"],
            record=record,
        )
        for record in json.loads(text)["devices"]
    }


@cache
def offered() -> tuple[str, ...]:
    """Names of the devices that are offered where a run does not fit, smaller ones first."""
    ranked = [(entry.record["offer_order"], name) for name, entry in devices().items() if entry.record["offer_order"] is not None]
    return tuple(name for _, name in sorted(ranked))


def find(name: str) -> CatalogDevice | None:
    """The device of that name, or None."""
    return devices().get(name)
