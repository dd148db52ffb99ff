"""A Hugging Face ``config.json`` read as an ``Architecture``: one reader a family, found by ``model_type``."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from service.estimation.architecture import Architecture

from . import encoders, gpt_like, latent, llama_like, mixtures, remote_code
from .dropout import with_dropout
from .fields import ConfigError, Fields, UnknownModelType
from .heads import with_head
from .traits import with_traits
from .unlike import UNLIKE

__all__ = ["ConfigError", "Doubt", "UnknownModelType", "doubts", "model_types", "read"]

READERS: dict[str, Callable[[Fields], Architecture]] = {
    **llama_like.READERS,
    **gpt_like.READERS,
    **mixtures.READERS,
    **latent.READERS,
    **remote_code.READERS,
    **encoders.READERS,
}

# Types that are another type under a different name (same modules, same field names).
SAME_AS = {
    "kimi_k2": "deepseek_v3",
    "deepseek_v32": "deepseek_v3",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "yi": "llama",
    "aquila": "llama",
    "vicuna": "llama",
    "refinedweb": "falcon",
    "refinedwebmodel": "falcon",
}

# Composite models: where the language model's config lies, and its type where the nest does not say.
NESTS = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "llava": "llama",
    "llava_next": "llama",
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "paligemma": "gemma",
    "idefics3": "llama",
    "smolvlm": "llama",
}

TOWERS = ("vision_config", "audio_config", "vision_tower")  # what a composite model holds beside its language model

# Fields that say enough about an unknown type to read it as a Llama.
GENERIC = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


def model_types() -> list[str]:
    """Every model type that is read by name."""
    return sorted({*READERS, *SAME_AS, *NESTS})


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a config's reading may not be the model that is trained; ``pointer`` is a JSON pointer within the config."""

    code: str
    pointer: str
    detail: str


def doubts(config: dict[str, Any]) -> list[Doubt]:
    """What a caller must know of a config that was read, beyond the assumptions beside each figure."""
    found: list[Doubt] = []
    text, where = config.get("text_config"), ""
    if isinstance(text, dict):
        found += [
            Doubt(
                "tower_left_out", f"/{tower}", "only the language model is counted: this part's memory, parameters and compute come on top"
            )
            for tower in _towers(config)
        ]
        name, where = str(text.get("model_type") or NESTS.get(str(config.get("model_type")).lower(), "")), "/text_config"
    else:
        name = str(config.get("model_type") or "")
    if SAME_AS.get(name.lower(), name.lower()) not in READERS:
        shown = f"'{name[:64]}'" if name else "(none)"
        found.append(
            Doubt("unknown_model_type", f"{where}/model_type", f"model type {shown} is not known: read as a Llama from its fields")
        )
    return found


def _towers(config: dict[str, Any]) -> list[str]:
    return [key for key in TOWERS if config.get(key) is not None]


def read(config: dict[str, Any]) -> Architecture:
    """The architecture that a ``config.json`` describes; raises ``ConfigError`` with a JSON pointer into it."""
    if not isinstance(config, dict):
        raise ConfigError("", "must be an object, the content of a config.json")
    return _read(config, "", nested=False)


def _read(config: dict[str, Any], pointer: str, *, nested: bool) -> Architecture:
    model_type = config.get("model_type")
    if model_type is not None and not isinstance(model_type, str):
        raise ConfigError(f"{pointer}/model_type", "must be a string")
    name = (model_type or "").lower()
    text = config.get("text_config")
    if text is not None and not nested:
        return _read_nest(config, name, pointer)
    known = SAME_AS.get(name, name)
    if known in READERS:
        fields = Fields(config, known, pointer)
        model = with_head(READERS[known](fields), fields)
        model = with_dropout(with_traits(_partly_rotated(model, config, known), known), fields)
        return model if known == name else replace(model, family=name)
    if name in NESTS:
        raise ConfigError(f"{pointer}/text_config", "is required: this model type keeps its language model's shape there")
    return _generic(config, name, pointer)


# Share of a head's dimensions that rotary positions turn, where the class's own default is below one.
ROTARY_SHARES = {"gpt_neox": 0.25, "phi": 0.5, "stablelm": 0.25, "persimmon": 0.5, "nemotron": 0.5, "glm": 0.5}


def _partly_rotated(model: Architecture, config: dict[str, Any], name: str) -> Architecture:
    """The model with the rotated part of its heads stated, where only a part is (it decides what attention keeps)."""
    nested = config.get("rope_parameters") if isinstance(config.get("rope_parameters"), dict) else {}
    given = (config.get("partial_rotary_factor"), config.get("rotary_pct"), (nested or {}).get("partial_rotary_factor"))
    share = next((value for value in given if isinstance(value, int | float)), ROTARY_SHARES.get(name, 1.0))
    if not 0 < share < 1:
        return model
    changed = {
        id(layer): replace(layer, attention=replace(layer.attention, rope_dim=int(layer.attention.query_key_dim * share)))
        for layer, _ in model.kinds()
        if layer.attention.rotary and not layer.attention.latent
    }
    return replace(model, layers=tuple(changed.get(id(layer), layer) for layer in model.layers))


def _read_nest(config: dict[str, Any], name: str, pointer: str) -> Architecture:
    """The language model of a composite one."""
    text = config["text_config"]
    where = f"{pointer}/text_config"
    if not isinstance(text, dict):
        raise ConfigError(where, "must be an object")
    inner = dict(text)
    if inner.get("model_type") is None:
        fallback = NESTS.get(name)
        if fallback is None:
            raise UnknownModelType(f"{where}/model_type", "is required to know the language model's family")
        inner["model_type"] = fallback
    if "tie_word_embeddings" not in inner and isinstance(config.get("tie_word_embeddings"), bool):
        inner["tie_word_embeddings"] = config["tie_word_embeddings"]
    model = _read(inner, where, nested=True)
    towers = _towers(config)
    note = "only the language model (text_config) is counted"
    if towers:
        note += f"; the parameters and compute of {', '.join(towers)} are left out"
    return replace(model, assumptions=(note, *model.assumptions))


def _generic(config: dict[str, Any], name: str, pointer: str) -> Architecture:
    """An unknown type read as a Llama where the usual fields are all there, else refused by name."""
    missing = [field for field in GENERIC if config.get(field) is None]
    experts = [field for field in config if "expert" in field and config[field] not in (None, 0, [], False)]
    layered = [field for field in config if field.startswith(("mamba", "ssm", "linear_", "conv_", "rwkv", "kv_lora")) and config[field]]
    where = f"{pointer}/model_type"
    unlike = name in UNLIKE
    if missing or experts or layered or unlike:
        close = difflib.get_close_matches(name, model_types(), n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        shown = f"'{name[:64]}'" if name else "(none)"
        if missing:
            why = f"and the generic fields do not suffice (missing: {', '.join(missing)})"
        elif unlike:
            why = "its blocks are not the usual ones, so that the generic fields do not suffice"
        else:
            why = f"and {(experts or layered)[0][:64]} says that its blocks are not the usual ones"
        raise UnknownModelType(where, f"model type {shown} is not known, {why}{hint}")
    fields = Fields(config, name or "unnamed", pointer, defaults={"hidden_act": "silu", "tie_word_embeddings": False})
    fields.assume(
        f"model type '{name[:64] or '(none)'}' is not known: read from its generic fields as a Llama-like decoder "
        "(gated feed-forward, two RMS norms a layer, rotary positions)"
    )
    model = llama_like.generic(fields)
    return replace(model, family=name[:64] or "unnamed")
