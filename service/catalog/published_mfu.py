"""MFU figures that publishers print, from ``data/published_mfu.json``: evidence, each with its convention and source."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def figures() -> tuple[dict[str, Any], ...]:
    """All figures in catalog order."""
    text = resources.files("service.catalog").joinpath("data", "published_mfu.json").read_text("utf-8")
    return tuple(json.loads(text)["items"])
