"""JSON merge patches (RFC 7396): the one way in which a document is changed by another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def patched(document: Any, patch: Any) -> Any:
    """A document with a merge patch applied: null removes, objects merge, everything else replaces. Neither argument changes."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = patched(result.get(name), value) if isinstance(value, Mapping) else value
    return result


def both(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two patches as one that does what they do in turn: unlike in :func:`patched`, what is removed stays in it as null."""
    result = dict(first)
    for name, value in second.items():
        inner = result.get(name)
        result[name] = both(inner if isinstance(inner, Mapping) else {}, value) if isinstance(value, Mapping) else value
    return result
