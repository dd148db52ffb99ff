"""The model of a spec, and the adapter targets it has."""

from __future__ import annotations

from service.catalog import models as model_catalog
from service.estimation.architecture import Architecture

from . import counted, hf_config
from .errors import spec_error, suggestion
from .section import Section
from .spec import CANONICAL_TARGETS, ModelSpec


def resolve_model(spec: ModelSpec, top: Section, provenance: dict[str, str]) -> Architecture:
    """The architecture; the spec's model is echoed as it was given."""
    if spec.preset is not None:
        architecture = model_catalog.architecture(spec.preset)
        if architecture is None:
            raise spec_error("/model/preset", "is not a model of GET /v1/models" + suggestion(spec.preset, model_catalog.names()))
        top.out["model"] = {"preset": spec.preset}
        provenance["/model"] = "preset"
        return architecture
    if spec.hf_config is not None:
        top.out["model"] = {"hf_config": spec.hf_config}
        provenance["/model"] = "hf_config"
        try:
            return hf_config.read(spec.hf_config)
        except hf_config.ConfigError as error:
            raise spec_error("/model/hf_config" + error.pointer, error.detail) from None
    given = {name: value for name in ModelSpec.model_fields if (value := getattr(spec, name)) is not None}
    top.out["model"] = given
    provenance["/model"] = "parameter_count"
    return counted.architecture(**given)


def check_targets(targets: str | list[str], architecture: Architecture) -> None:
    """Refuse adapter targets that neither the model nor the canonical list knows."""
    if isinstance(targets, str):
        return
    own = {matrix.name for layer, _ in architecture.kinds() for matrix in layer.matrices}
    own.update(matrix.name for matrix in architecture.outside)
    if architecture.head is not None:
        own.add(architecture.head.name)
    own.update(vector.name for vector in architecture.embeddings)
    own.update(name.rpartition(".")[2] for name in tuple(own))
    for index, target in enumerate(targets):
        if target not in CANONICAL_TARGETS and target not in own:
            raise spec_error(
                f"/method/lora/target_modules/{index}", "is no module of this model" + suggestion(target, {*CANONICAL_TARGETS, *own})
            )
