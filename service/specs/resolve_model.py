"""The model of a spec."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from service.catalog import models as model_catalog
from service.estimation.architecture import Architecture
from service.estimation.warnings import Warning
from service.kit.documents import nearest

from . import counted, hf_config, presets
from .errors import spec_error
from .section import Section
from .spec_model import ModelSpec


def resolve_model(spec: ModelSpec, top: Section, provenance: dict[str, str], warnings: list[Warning]) -> Architecture:
    """The architecture; the spec's model is echoed as it was given."""
    if spec.preset is not None:
        architecture = presets.architecture(spec.preset.lower())
        if architecture is None:
            raise spec_error("/model/preset", "is not a model of GET /v1/models" + nearest(spec.preset, model_catalog.names()))
        top.out["model"] = {"preset": spec.preset}
        provenance["/model"] = "preset"
        return architecture
    if spec.hf_config is not None:
        top.out["model"] = {"hf_config": spec.hf_config}
        provenance["/model"] = "hf_config"
        try:
            architecture = _read(json.dumps(spec.hf_config))
        except hf_config.ConfigError as error:
            raise spec_error("/model/hf_config" + error.pointer, error.detail) from None
        for doubt in hf_config.doubts(spec.hf_config):
            warnings.append(Warning(code=doubt.code, detail=doubt.detail, pointer="/model/hf_config" + doubt.pointer))
        return architecture
    given = {name: value for name in ModelSpec.model_fields if (value := getattr(spec, name)) is not None}
    top.out["model"] = given
    provenance["/model"] = "parameter_count"
    try:
        return counted.architecture(**given)
    except counted.Contradiction as error:
        raise spec_error(f"/model/{error.field}", str(error)) from None


@lru_cache(maxsize=256)
def _read(text: str) -> Architecture:
    """A config read once: callers quote the same model again and again."""
    config: dict[str, Any] = json.loads(text)
    return hf_config.read(config)
