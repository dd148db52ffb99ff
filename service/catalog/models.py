"""Published model shapes as presets: a ``config.json``'s fields, with source, date and published parameter count."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelPreset:
    """One entry of the catalog."""

    name: str
    config: dict[str, Any]  # Hugging Face fields; nothing in it is changed after loading
    source: str
    date: str
    published_total: int | None = None  # parameters, as the publisher states them
    note: str | None = None
    aliases: tuple[str, ...] = ()  # other names it is known by (a hub id, a name with its version)


@lru_cache(maxsize=1)
def _presets() -> dict[str, ModelPreset]:
    text = resources.files("service.catalog").joinpath("data", "models.json").read_text("utf-8")
    models = json.loads(text)["models"]
    return {name: ModelPreset(name=name, **{**entry, "aliases": tuple(entry.get("aliases", ()))}) for name, entry in models.items()}


@lru_cache(maxsize=1)
def _by_any_name() -> dict[str, ModelPreset]:
    """Presets by name and by alias."""
    found = {alias: preset for preset in _presets().values() for alias in preset.aliases}
    return {**found, **_presets()}


def names() -> list[str]:
    """Names of all presets, sorted."""
    return sorted(_presets())


def preset(name: str) -> ModelPreset | None:
    """The preset of that name or alias (case does not matter), None where there is none."""
    return _by_any_name().get(name.lower())


def presets() -> list[ModelPreset]:
    """All presets by name."""
    return [_presets()[name] for name in names()]
