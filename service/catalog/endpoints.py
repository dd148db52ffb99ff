"""What the catalog holds, over HTTP: devices and models, each with its source and date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from service.kit import api, documents, paging
from service.kit.problems import NotFound
from service.kit.security import Caller, allow

from . import devices as device_catalog
from . import models as model_catalog
from . import published_mfu

router = APIRouter(tags=["catalog"])


class DeviceEntry(BaseModel):
    """One device: peaks are per device, dense or sparse as they say; links are bytes per second and device in one direction."""

    model_config = ConfigDict(extra="allow")

    name: str
    memory_bytes: int = Field(description="As the driver reports it.")
    memory_basis: str = Field(description="`read`: seen in published logs; `derived`: not.")
    hbm_bytes_per_second: float | None
    peak_bf16_dense_flops_per_second: float | None
    peak_bf16_sparse_flops_per_second: float | None
    peak_fp16_dense_flops_per_second: float | None
    peak_fp16_sparse_flops_per_second: float | None
    peak_fp8_dense_flops_per_second: float | None
    peak_fp8_sparse_flops_per_second: float | None
    peak_fp32_dense_flops_per_second: float | None = Field(description="The plain unit, not TF32.")
    peak_fp32_sparse_flops_per_second: float | None
    intra_node_bytes_per_second: float | None
    inter_node_bytes_per_second: float | None
    source: list[str]
    date: str


class DeviceList(BaseModel):
    """Devices in the catalog's order."""

    items: list[DeviceEntry]
    next_cursor: str | None


class ModelSummary(BaseModel):
    """One preset."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="What `model.preset` takes.")
    source: str
    date: str
    published_total: int | None = Field(description="Parameters as the publisher states them.")


class ModelList(BaseModel):
    """Presets by name."""

    items: list[ModelSummary]
    next_cursor: str | None


class ModelDetail(ModelSummary):
    """One preset with its shape."""

    hf_config: dict[str, Any] = Field(description="Its shape as a Hugging Face config.")


class PublishedMfu(BaseModel):
    """One figure as its publisher prints it."""

    model_config = ConfigDict(extra="allow")

    name: str
    model: str
    device: str
    mfu: float = Field(description="As it is usually quoted.")
    printed: str = Field(description="As the source prints it.")
    convention: str = Field(description="What the numerator counts: `full_attention`, `causal`, `6nd`, or `unstated`.")
    source: str
    date: str


class PublishedMfuList(BaseModel):
    """All figures."""

    items: list[PublishedMfu]


def _json(document: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(documents.dump(document), media_type="application/json", headers=headers)


def _page(request: Request, items: Sequence[dict[str, Any]], cursor: str | None, limit: int | None) -> Response:
    shown, following = paging.part(items, [item["name"] for item in items], cursor, limit)
    return _json({"items": list(shown), "next_cursor": following}, paging.link(request, following))


@router.get("/devices", summary="List devices", responses=api.gives(200, DeviceList, "All devices."))
def list_devices(request: Request, limit: paging.SomeLimit = None, cursor: paging.Cursor = None, caller: Caller = allow()) -> Response:
    """Every device that `hardware.device` takes; all of them on one page without a `limit`."""
    return _page(request, [entry.record for entry in device_catalog.devices().values()], cursor, limit)


@router.get("/models", summary="List models", responses=api.gives(200, ModelList, "All presets."))
def list_models(request: Request, limit: paging.SomeLimit = None, cursor: paging.Cursor = None, caller: Caller = allow()) -> Response:
    """Every model that `model.preset` takes; all of them on one page without a `limit`."""
    return _page(request, [_summary(preset) for preset in model_catalog.presets()], cursor, limit)


@router.get("/models/{preset}", summary="Get a model", responses=api.gives(200, ModelDetail, "The preset.") | api.problems(404))
def get_model(preset: str, caller: Caller = allow()) -> Response:
    """One preset with its shape."""
    found = model_catalog.preset(preset)
    if found is None:
        raise NotFound("There is no such preset; GET /v1/models lists them")
    return _json({**_summary(found), "hf_config": found.config})


def _summary(preset: model_catalog.ModelPreset) -> dict[str, Any]:
    return {
        "name": preset.name,
        "source": preset.source,
        "date": preset.date,
        "published_total": preset.published_total,
        "note": preset.note,
    }


@router.get("/published-mfu", summary="List published MFU figures", responses=api.gives(200, PublishedMfuList, "All figures."))
def list_published_mfu(caller: Caller = allow()) -> Response:
    """MFU figures of large runs as evidence, each with its convention: figures of unlike conventions do not compare."""
    return _json({"items": list(published_mfu.figures())})
