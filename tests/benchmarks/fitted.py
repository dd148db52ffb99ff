"""What generated files of fitted numbers say of their making: the rows, counts and priors that a fit read, as one digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

FITTED = Path(__file__).resolve().parents[2] / "service" / "estimation" / "fitted"


def digest(rows: Iterable[str], priors: Mapping[str, object]) -> str:
    """Of rows (the measured ones, what a model counts of them), as text in any order, and the priors: whether any changed since the fit."""
    whole = hashlib.sha256(json.dumps(priors, sort_keys=True).encode())
    for line in sorted(rows):
        whole.update(line.strip().encode())
    return whole.hexdigest()[:16]
