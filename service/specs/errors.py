"""Faults of a run spec: where they are, what is wrong, and the name that was probably meant. Nothing received is echoed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_POINTER_LENGTH = 300
_ERRORS = 100


class SpecError(ValueError):
    """A run spec that cannot be quoted; ``errors`` holds ``{"pointer", "detail"}`` for each fault."""

    def __init__(self, errors: Sequence[Mapping[str, str]]) -> None:
        self.errors = [dict(error) for error in errors]
        super().__init__("; ".join(f"{e['pointer']}: {e['detail']}" for e in self.errors[:5]))

    @classmethod
    def at(cls, where: str, detail: str) -> SpecError:
        """One fault at one JSON Pointer."""
        return cls([{"pointer": where, "detail": detail}])


def pointer(parts: Iterable[str | int]) -> str:
    """The JSON Pointer (RFC 6901) of a path, cut where a hostile key makes it long."""
    text = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return text if len(text) <= _POINTER_LENGTH else text[:_POINTER_LENGTH] + "..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``, if one is close."""
    matches = difflib.get_close_matches(name[:100].lower(), list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean `x`?`` or nothing."""
    match = nearest(name, known)
    return f"; did you mean `{match}`?" if match else ""


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


@cache
def _fields(model: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    """Fields of a model, each with the model it nests."""
    return {name: next(_models(info.annotation), None) for name, info in model.model_fields.items()}


@cache
def _paths(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Every nested field name with its dotted path (the first path where a name occurs twice)."""
    found: dict[str, str] = {}
    for name, nested in _fields(model).items():
        found.setdefault(name, prefix + name)
        if nested is not None:
            for inner, path in _paths(nested, f"{prefix}{name}.").items():
                found.setdefault(inner, path)
    return found


def unknown_field(root: type[BaseModel], path: Sequence[str | int], name: str) -> str:
    """What to say of a field that a (nested) model does not have."""
    model: type[BaseModel] | None = root
    for part in path:
        if model is not None and isinstance(part, str):
            model = _fields(model).get(part)
    siblings = _fields(model) if model is not None else {}
    elsewhere = _paths(root)
    if nearest(name, siblings) is None and name in elsewhere:
        return f"unknown field here; it belongs at `{elsewhere[name]}`"
    match = nearest(name, siblings) or elsewhere.get(nearest(name, elsewhere) or "")
    return "unknown field" + (f"; did you mean `{match}`?" if match else "")


def _real_path(body: Any, path: Sequence[str | int]) -> list[str | int]:
    """The path without pydantic's own union tags: the parts that lead somewhere in the body."""
    kept: list[str | int] = []
    for part in path:
        if isinstance(body, Mapping):
            kept.append(part)
            body = body.get(part)
        elif isinstance(body, list) and isinstance(part, int):
            kept.append(part)
            body = body[part] if part < len(body) else None
    return kept


def _detail(root: type[BaseModel], path: list[str | int], error: ErrorDetails, body: Any) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        return unknown_field(root, path[:-1], str(path[-1]))
    if kind == "literal_error":
        expected = str(error.get("ctx", {}).get("expected", ""))
        choices = [c.strip("' ") for c in expected.replace(" or ", ", ").split(", ")]
        given = _value(body, path)
        return f"must be one of {', '.join(choices)}" + (suggestion(given, choices) if isinstance(given, str) else "")
    if kind == "missing":
        return "is required"
    if kind == "finite_number":
        return "must be a finite number"
    if kind == "model_type" or kind == "dict_type":
        return "must be an object"
    if kind == "list_type":
        return "must be a list"
    message = error["msg"].replace("Input should be", "must be")
    return message[:1].lower() + message[1:]


def _value(body: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        try:
            body = body[part]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def explain(root: type[BaseModel], error: ValidationError, body: Any, prefix: Sequence[str | int] = ()) -> list[dict[str, str]]:
    """Pydantic's errors as pointers and details, in order, each pointer once."""
    faults: dict[str, str] = {}
    for one in error.errors(include_url=False, include_input=False, include_context=True)[:_ERRORS]:
        path = _real_path(body, one["loc"])
        faults.setdefault(pointer((*prefix, *path)), _detail(root, path, one, body))
    return [{"pointer": where, "detail": detail} for where, detail in faults.items()]
