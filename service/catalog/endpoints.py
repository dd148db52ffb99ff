"""What the catalog holds, over HTTP: devices and models, each with its source and date."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from service.kit import api, documents
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
    """All devices."""

    items: list[DeviceEntry]


class ModelSummary(BaseModel):
    """One preset."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="What `model.preset` takes.")
    source: str
    date: str
    published_total: int | None = Field(description="Parameters as the publisher states them.")


class ModelList(BaseModel):
    """All presets."""

    items: list[ModelSummary]


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


def _json(document: Any) -> Response:
    return Response(documents.dump(document), media_type="application/json")


@router.get("/devices", summary="List devices", responses=api.gives(200, DeviceList, "All devices."))
def list_devices(caller: Caller = allow()) -> Response:
    """Every device that `hardware.device` takes."""
    return _json({"items": [entry.record for entry in device_catalog.devices().values()]})


@router.get("/models", summary="List models", responses=api.gives(200, ModelList, "All presets."))
def list_models(caller: Caller = allow()) -> Response:
    """Every model that `model.preset` takes."""
    return _json({"items": [_summary(preset) for preset in model_catalog.presets()]})


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
