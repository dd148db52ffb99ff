"""The architecture of a catalog preset: its config read by the same reader as a caller's."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from service.catalog import models
from service.estimation.architecture import Architecture

from . import hf_config


@lru_cache(maxsize=512)
def architecture(name: str) -> Architecture | None:
    """The architecture of a preset; None where there is no preset of that name."""
    preset = models.preset(name)
    return None if preset is None else replace(hf_config.read(preset.config), name=preset.name)
