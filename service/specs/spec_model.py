"""Parts of the run spec that speak of the model and of what is trained of it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from service.estimation.parameters import FROZEN_PARTS

from .fields import Dropout, Flag, Layers, Name, Part, Positive, PositiveAmount, Width, fault, one_or_list

_LAYER_RANGE = re.compile(r"^layers:\d{1,5}(-\d{1,5})?$")

_Targets = Annotated[
    Annotated[Name, Tag("one")] | Annotated[list[Name], Field(min_length=1, max_length=200), Tag("list")], Discriminator(one_or_list)
]


class ModelSpec(Part):
    """The model: exactly one of a preset, a Hugging Face config and a parameter count."""

    preset: Name | None = None
    """A name of `GET /v1/models`."""
    hf_config: dict[str, Any] | None = Field(default=None, description="A Hugging Face config.json as it is.")
    parameter_count: Positive | None = None
    """All parameters, where the shape is not known; what shape is known may stand beside it."""
    active_parameter_count: Positive | None = None
    """Of a mixture of experts: the parameters that one token uses."""
    num_hidden_layers: Layers | None = None
    hidden_size: Width | None = None
    num_attention_heads: Width | None = None
    num_key_value_heads: Width | None = None
    head_dim: Width | None = None
    intermediate_size: Width | None = None
    vocab_size: Width | None = None
    tie_word_embeddings: Flag | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("preset", "hf_config", "parameter_count") if getattr(self, name) is not None]
        if len(given) != 1:
            raise fault("exactly_one", "give exactly one of preset, hf_config and parameter_count")
        if self.parameter_count is None:
            stray = sorted(name for name in self.model_fields_set - {"preset", "hf_config"} if getattr(self, name) is not None)
            if stray:
                raise fault("shape_without_count", f"only with parameter_count: {', '.join(stray)}")
        elif self.active_parameter_count is not None and self.active_parameter_count > self.parameter_count:
            raise fault("active_above_total", "active_parameter_count exceeds parameter_count")
        return self


class LoraSpec(Part):
    """Low-rank adapters."""

    rank: Width | None = None
    """8 where it is left out."""
    alpha: PositiveAmount | None = None
    target_modules: _Targets | None = None
    """`all-linear` (the default), or names such as `q_proj`; the model's own names too."""
    dropout: Dropout | None = None
    """0 where it is left out."""
    adapter_bytes: Literal[2, 4] | None = None
    """Bytes of an adapter's parameter: 4 (the default of PEFT) or 2."""
    input_grads: Flag | None = None
    """Whether the embeddings' output needs gradients (`enable_input_require_grads`)."""
    modules_to_save: Annotated[list[Name], Field(max_length=50)] | None = None
    """Modules that are trained whole beside the adapters."""

    @field_validator("target_modules")
    @classmethod
    def _all_linear_or_names(cls, value: str | list[str] | None) -> str | list[str] | None:
        # A single name is taken as a list of one.
        return [value] if isinstance(value, str) and value != "all-linear" else value


class QuantizationSpec(Part):
    """How the frozen base is stored."""

    format: Literal["nf4", "fp4", "int8", "gptq_int4"] | None = None
    """`nf4` where `qlora` leaves it out."""
    block_size: Width | None = None
    """Weights that share a scale."""
    double_quantization: Flag | None = None
    """Whether the scales are quantized too; false where it is left out."""


class MethodSpec(Part):
    """What is trained and towards what."""

    kind: Literal["full", "lora", "qlora", "frozen"] | None = None
    """`full` where it is left out."""
    objective: Literal["pretrain", "sft", "dpo", "reward_model", "ppo", "grpo"] | None = None
    """`pretrain` where it is left out. Under `dpo` a sample is a pair: two sequences."""
    lora: LoraSpec | None = None
    quantization: QuantizationSpec | None = None
    frozen: Annotated[list[Name], Field(max_length=50)] | None = None
    """Of kind `frozen`: `embeddings`, `lm_head`, `attention`, `mlp`, `norms`, or layers as `layers:0-15`."""

    @field_validator("frozen")
    @classmethod
    def _known_parts(cls, value: list[str] | None) -> list[str] | None:
        for part in value or ():
            if part not in FROZEN_PARTS and not _LAYER_RANGE.match(part):
                raise fault("frozen_part", f"each must be one of {', '.join(FROZEN_PARTS)} or a range like layers:0-15")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        adapters = self.kind in ("lora", "qlora")
        if self.lora is not None and not adapters:
            raise fault("lora_kind", "lora applies to kind lora and qlora only")
        if self.quantization is not None and not adapters:
            raise fault("quantization_kind", "only the frozen base of kind lora and qlora is quantized")
        if self.frozen and adapters:
            raise fault("frozen_adapters", "under lora and qlora the whole base is frozen already")
        if self.kind == "frozen" and not self.frozen:
            raise fault("frozen_empty", "kind frozen needs the list of frozen parts")
        if self.frozen and self.kind != "frozen":
            raise fault("frozen_full", "kind full, the default, trains everything: use kind frozen")
        return self
