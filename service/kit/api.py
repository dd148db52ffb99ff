"""How endpoints are written and documented.

An endpoint is a plain `def` (FastAPI runs it in a worker thread): `body: JsonBody` for its body, `caller: Caller = allow(scope)`
for who asks, and it returns a `Response` whose JSON is already text. What it takes and gives is documented beside it:
`openapi_extra=takes(Model, example)` and `responses=gives(201, Model, ...) | problems(404, ...)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_origin

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from .database import Database
from .documents import LIMITS, MAXIMUM_FAULTS, MAXIMUM_HINTS, nearest
from .problems import MEDIA_TYPE, Fault, Invalid, Problem, problem_types
from .security import identify

BODY = (400, 408, 413, 415)  # what may be wrong with a body before its values are looked at
Documented = dict[int | str, dict[str, Any]]

MAXIMUM_PARAMETER_FAULTS = 20  # that a problem tells

_REFERENCE = "#/components/schemas/{model}"
_request_models: dict[str, type[BaseModel]] = {}


class ProblemEntry(BaseModel):
    """One bad value."""

    pointer: str = Field(description="JSON Pointer (RFC 6901) into the body; empty for the body itself and for parameters.")
    detail: str = Field(description="What is wrong there.")
    parameter: str | None = Field(default=None, description="The query parameter or header, where it is not in the body.")


class ProblemBody(BaseModel):
    """A problem (RFC 9457)."""

    type: str = Field(description="A stable name of the kind of problem; switch on this.", examples=["urn:runquote:problem:invalid"])
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="The HTTP status again.", examples=[422])
    detail: str = Field(description="What happened this time.")
    instance: str | None = Field(default=None, description="The path that was asked.")
    errors: list[ProblemEntry] = Field(
        default=[],
        max_length=MAXIMUM_FAULTS,
        description=f"Every bad value, where that is the problem: the first {MAXIMUM_FAULTS}. Of unknown fields the first "
        f"{MAXIMUM_HINTS} are told the nearest known name.",
    )
    request_id: str | None = Field(default=None, description="Finds the request in the service's log.")


def database(request: Request) -> Database:
    """The application's database."""
    found: Database = request.app.state.database
    return found


def takes(model: type[BaseModel], example: Any) -> dict[str, Any]:
    """`openapi_extra` of an endpoint that takes a JSON body."""
    _request_models[model.__name__] = model
    content = {"application/json": {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}, "example": example}}
    return {"requestBody": {"required": True, "description": LIMITS, "content": content}}


def gives(
    status: int, model: type[BaseModel], description: str, *, example: Any = None, headers: Mapping[str, str] | None = None
) -> Documented:
    """`responses` entry of a good answer."""
    entry: dict[str, Any] = {"model": model, "description": description}
    if example is not None:
        entry["content"] = {"application/json": {"example": example}}
    if headers:
        entry["headers"] = {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()}
    return {status: entry}


def problems(*statuses: int) -> Documented:
    """`responses` entries of problems."""
    schema = {"schema": {"$ref": _REFERENCE.format(model="Problem")}}
    return {status: {"description": _title(status), "content": {MEDIA_TYPE: schema}} for status in statuses}


def _title(status: int) -> str:
    titles = [kind.title for kind in problem_types() if kind.status == status]
    return "; or ".join(titles) or Problem.title


def _names(route: APIRoute) -> tuple[dict[str, bool], tuple[str, ...]]:
    """The query parameters of a route, each with whether it may be repeated; and the prefixes of open ones (`label.`)."""
    names: dict[str, bool] = {}
    pending = [route.dependant]
    while pending:
        dependant = pending.pop()
        pending += dependant.dependencies
        names |= {field.alias: get_origin(field.field_info.annotation) is list for field in dependant.query_params}
    extra = (route.openapi_extra or {}).get("parameters", [])
    return names, tuple(parameter["name"].partition("<")[0] for parameter in extra if "<" in parameter["name"])


async def known_parameters(request: Request) -> None:
    """Refuse query parameters that the endpoint does not have, and ones given twice: an input is never without effect.

    Nobody unknown is told what an endpoint knows: a key is asked for first.
    """
    await identify(request)
    if not request.url.query:
        return
    await identify(request)  # who has no key is told that first, and nothing else
    names, prefixes = _names(request.scope["route"])
    faults: list[Fault] = []
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if len(faults) >= MAXIMUM_PARAMETER_FAULTS:
            break
        if name not in names and not name.startswith(prefixes or ("\0",)):
            hint = nearest(name, [*names, *prefixes]) if len(faults) < MAXIMUM_HINTS else ""
            faults.append(Fault("", "unknown parameter" + hint, name[:100]))
        elif "\0" in value or "\0" in name:
            faults.append(Fault("", "the text holds a NUL", name[:100].replace("\0", "?")))
        elif name in seen and not names.get(name, False):
            faults.append(Fault("", "given more than once", name[:100]))
        seen.add(name)
    if faults:
        raise Invalid(f"{faults[0].parameter}: {faults[0].detail}", errors=faults)


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: FastAPI's, with the request models and the problem that endpoints refer to."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            description=app.description,
            routes=app.routes,
            tags=app.openapi_tags,
            servers=app.servers,
            contact=app.contact,
            license_info=app.license_info,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        models: list[tuple[type[BaseModel], Any]] = [(model, "validation") for model in _request_models.values()]
        _, definitions = models_json_schema(models, ref_template=_REFERENCE)
        schemas.update(definitions.get("$defs", {}))
        _, answers = models_json_schema([(ProblemBody, "serialization")], ref_template=_REFERENCE)
        for name, schema in answers["$defs"].items():
            schemas["Problem" if name == "ProblemBody" else name] = schema
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        document["components"]["schemas"] = dict(sorted(schemas.items()))
        app.openapi_schema = document
    return app.openapi_schema
