"""Documents: JSON bodies in, JSON text out.

Python's parser is lenient where the contract is not, so a body passes these gates before a model sees it: UTF-8; no NaN or
infinity; no key twice; no number a double cannot hold; nothing nested deeper than `MAXIMUM_DEPTH`; no NUL and no half of a
surrogate pair in text (PostgreSQL stores neither). An integral float (`1e8`) becomes the integer it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import orjson
from fastapi import Depends, Request
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, ValidationError
from pydantic_core import to_json

from service.settings import Settings

from .limits import LARGE_BYTES, Limits, Way
from .problems import Fault, Invalid, MalformedBody, Problem, TooLarge, TooSlow, UnsupportedMediaType
from .security import identify

JSON = "application/json"

MAXIMUM_DEPTH = 64
MAXIMUM_KEYS = 10_000  # of one object: the longest summary of a tracker has a few thousand
MAXIMUM_FAULTS = 50  # that a problem tells
MAXIMUM_REFUSED = 10_000  # values of one body that are looked at one by one; beyond them it is another document than was asked for
MAXIMUM_HINTS = 10  # faults of a problem that are told the nearest name
MAXIMUM_COMPARED = 60  # characters of an unknown name; the longest known one has fewer
VALUES_BETWEEN_WAYS = 2000  # of a long body: a millisecond
MAXIMUM_POINTER = 500
MAXIMUM_NAMES = 6  # that an unknown one may stand for
LIMITS = (
    f"At most {Settings.model_fields['max_body_bytes'].default >> 20} MiB unless the deployment says otherwise (413); "
    f"{MAXIMUM_DEPTH} levels of nesting and {MAXIMUM_KEYS} keys in one object (422, with a pointer)."
)
"""What holds for every body, in words; what holds for a field stands in its schema."""
_INTEGER_LIMIT = 2**63  # bytes and tokens are 64-bit; larger amounts (FLOPs) are floats
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")
_HARMFUL_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")

Model = TypeVar("Model", bound=BaseModel)


class RequestModel(BaseModel):
    """Base of request bodies: unknown fields are refused, and text is not taken for a number nor 1 for true."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None


Moment = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""A moment in a body or a query: RFC 3339 with its offset, taken to UTC."""


class _Bad:
    """Stands where a value cannot be taken, until its pointer is known."""

    def __init__(self, detail: str, text: str = "") -> None:
        self.detail = detail
        self.text = text

    def __repr__(self) -> str:
        return f"refused: {self.text}"


class _Object(dict[str, Any]):
    """An object in which a key came twice."""

    repeated = ""


class Body:
    """The bytes of a request body; parsing happens where the endpoint runs, off the event loop."""

    def __init__(self, content: bytes, way: Way | None = None) -> None:
        self.content = content
        self._way = way  # that is given to others while a long body is parsed

    def json(self) -> Any:
        """The document, or the problem with it."""
        return parse(self.content, self._way)

    def examine(self) -> tuple[Any, list[Fault]]:
        """The document with what is refused in it, for a body whose parts stand apart."""
        return examine(self.content, self._way)

    def read(self, model: type[Model]) -> Model:
        """The document as a model."""
        return validate(model, self.json())


async def read_body(request: Request) -> Body:
    """The body of a request that may send one."""
    await identify(request)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON and not (media_type.startswith("application/") and media_type.endswith("+json")):
        raise UnsupportedMediaType("Send the body as application/json")
    limit: int = request.app.state.settings.max_body_bytes
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise too_large(limit)
    content = bytearray()
    try:
        async with asyncio.timeout(request.app.state.settings.body_seconds):
            async for chunk in request.stream():
                content += chunk
                if len(content) > limit:
                    raise too_large(limit)
    except TimeoutError:
        raise TooSlow(headers={"Connection": "close"}) from None
    limits: Limits = request.app.state.limits
    await limits.lane(request.scope, len(content))  # not before: a body that comes slowly must not hold a place
    return Body(bytes(content), limits.way() if len(content) > LARGE_BYTES else None)


def too_large(limit: int) -> Problem:
    """413; the connection is closed so that the rest need not be read."""
    return TooLarge(f"The body may have {limit} bytes", headers={"Connection": "close"})


JsonBody = Annotated[Body, Depends(read_body)]
"""A JSON body as an endpoint's parameter."""


def parse(content: bytes, way: Way | None = None) -> Any:
    """A JSON document from bytes; raises `MalformedBody` (not JSON) or `Invalid` (JSON with a value that is refused)."""
    document, faults = _examined(content, way)
    if found := list(islice(faults, MAXIMUM_FAULTS)):
        raise Invalid(found[0].detail, errors=found)
    return document


def examine(content: bytes, way: Way | None = None) -> tuple[Any, list[Fault]]:
    """A JSON document and every value in it that is refused; raises where it is not JSON, has no bottom, or too much is refused."""
    document, faults = _examined(content, way)
    found = list(islice(faults, MAXIMUM_REFUSED + 1))
    if len(found) > MAXIMUM_REFUSED:
        raise _too_many()
    return document, found


def _examined(content: bytes, way: Way | None) -> tuple[Any, Iterator[Fault]]:
    """The document, and the walk that finds what is refused in it."""
    bad: list[_Bad] = []

    def refuse(detail: str, text: str = "") -> _Bad:
        if len(bad) >= MAXIMUM_REFUSED:
            raise _too_many()
        bad.append(_Bad(detail, text))
        return bad[-1]

    def integer(text: str) -> Any:
        if len(text) < 19:
            return int(text)
        number = float(text)
        if math.isinf(number):
            return refuse("the number is too large", text)
        return int(text) if len(text) < 400 and -_INTEGER_LIMIT <= int(text) < _INTEGER_LIMIT else number

    def real(text: str) -> Any:
        number = float(text)
        if math.isinf(number):
            return refuse("the number is too large", text)
        return int(number) if number.is_integer() and abs(number) < _INTEGER_LIMIT else number

    def constant(_: str) -> Any:
        raise MalformedBody("NaN and infinities are not JSON")

    def pairs(entries: list[tuple[str, Any]]) -> Any:
        if len(entries) > MAXIMUM_KEYS:
            return refuse(f"an object may have {MAXIMUM_KEYS} keys")
        found = dict(entries)
        if len(found) == len(entries):
            return found
        counts = Counter(key for key, _ in entries)
        twice = _Object(found)
        twice.repeated = counts.most_common(1)[0][0]
        refuse("")
        return twice

    hooks: list[Callable[[Any], Any]] = [integer, real, pairs]
    if way is not None:
        hooks = [_giving_way(hook, way) for hook in hooks]
    whole, fraction, entries = hooks
    try:
        document = json.loads(
            content.decode("utf-8"), parse_int=whole, parse_float=fraction, parse_constant=constant, object_pairs_hook=entries
        )
    except UnicodeDecodeError as error:
        raise MalformedBody("The body is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise MalformedBody(f"The body is not JSON at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise _nested() from error
    deep = content.count(b"[") + content.count(b"{") > MAXIMUM_DEPTH
    harmful = bad or deep or _HARMFUL_ESCAPE.search(content)
    return document, _faults(document) if harmful else iter(())


def _giving_way(hook: Callable[[Any], Any], way: Way) -> Callable[[Any], Any]:
    """The same hook of the parser; others are given way to every so many of its calls."""
    calls = 0

    def counted(value: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % VALUES_BETWEEN_WAYS == 0:
            way.give()
        return hook(value)

    return counted


def _nested() -> Invalid:
    return _whole(f"nested deeper than {MAXIMUM_DEPTH} levels")


def _too_many() -> Invalid:
    return _whole(f"more than {MAXIMUM_REFUSED} values of the body are refused")


def _whole(detail: str) -> Invalid:
    """What is wrong with a body as a whole."""
    return Invalid(detail, errors=[Fault("", detail)])


def _faults(document: Any) -> Iterator[Fault]:
    """Every value of a document that is refused, in its order; walked without recursion, and in the memory of its depth."""
    path: list[str | int] = []
    walks: list[Iterator[tuple[str | int, Any]]] = []
    node = document
    while True:
        if len(path) > MAXIMUM_DEPTH:
            raise _nested()
        if isinstance(node, str):
            if not _storable(node):
                yield Fault(pointer(path), "the text holds a NUL or half of a surrogate pair")
        elif isinstance(node, _Bad):
            yield Fault(pointer(path), node.detail)
        elif isinstance(node, dict | list):
            if isinstance(node, _Object):
                yield Fault(pointer((*path, node.repeated)), "the key stands twice in its object")
            walks.append(_children(node))
            path.append("")
        while walks:
            if (child := next(walks[-1], None)) is not None:
                path[-1], node = child
                break
            walks.pop()
            path.pop()
        if not walks:
            return
        if isinstance(path[-1], str) and not _storable(path[-1]):
            yield Fault(pointer(path[:-1]), "a key holds a NUL or half of a surrogate pair")


def _children(node: dict[str, Any] | list[Any]) -> Iterator[tuple[str | int, Any]]:
    """What stands in an object or a list; numbers of a list need no look."""
    if isinstance(node, dict):
        return iter(node.items())
    return ((index, value) for index, value in enumerate(node) if not isinstance(value, int | float))


def _storable(text: str) -> bool:
    return _NOT_STORABLE.search(text) is None


def pointer(path: Sequence[str | int]) -> str:
    """A JSON Pointer (RFC 6901), cut where a hostile key makes it long."""
    text = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return text[:MAXIMUM_POINTER].encode("utf-8", "replace").decode()


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC, as every answer has it."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def dump(document: Any) -> str:
    """JSON text as the service stores and sends it; NaN and infinity are a bug and raise."""
    return encode(document).decode()


def encode(document: Any, total: float | None = None) -> bytes:
    """The bytes of `dump`. `total` is a sum of every number that may be NaN or infinite: where it is given and finite, none is."""
    if total is not None and math.isfinite(total):
        # The fastest encoder writes null for a number that is none, hence the sum; integers beyond 64 bits it refuses.
        with contextlib.suppress(TypeError):
            return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    text = to_json(document)
    # The standard library is asked only where a text or a number might be one that JSON lacks.
    if b"NaN" in text or b"Infinity" in text:
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return text


def validate(model: type[Model], document: Any, at: tuple[str | int, ...] = ()) -> Model:
    """A model from a parsed document; `at` is where the document stands in the body."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise invalid_body(error, model, document, at) from None


def invalid_body(error: ValidationError, model: type[BaseModel], document: Any, at: tuple[str | int, ...] = ()) -> Invalid:
    """A model's refusal as a problem: pointers that lead into the document, and the nearest name of an unknown field."""
    if error.error_count() > MAXIMUM_REFUSED:
        return Invalid(_too_many().detail, errors=[Fault(pointer(at), f"more than {MAXIMUM_REFUSED} values are refused")])
    faults: dict[tuple[str, str], Fault] = {}
    hints = 0
    left = error.error_count()
    for entry in error.errors(include_url=False, include_input=False, include_context=True):
        if len(faults) == MAXIMUM_FAULTS:
            break
        left -= 1
        path = _into(document, entry["loc"])
        detail = entry["msg"].removeprefix("Value error, ")
        if entry["type"] == "extra_forbidden":
            # To look for names takes longer than anything else that is done with a bad value, and nobody reads a hundred.
            hints += 1
            detail = "unknown field" + (nearest(str(path[-1]), known_fields(model, path[:-1])) if hints <= MAXIMUM_HINTS else "")
        fault = Fault(pointer((*at, *path)), detail)
        faults.setdefault((fault.pointer, fault.detail), fault)
    found = list(faults.values())
    first = found[0]
    summary = f"{first.pointer or 'the body'}: {first.detail}"
    others = len(found) - 1 + left
    return Invalid(summary + (f" (and {others} more)" if others else ""), errors=found)


def nearest(name: str, known: Sequence[str]) -> str:
    """What to add to "unknown ...": the known name that is nearest, however far, or those that a short form may stand for."""
    return _nearest(name[:MAXIMUM_COMPARED].lower(), tuple(known))


@lru_cache(maxsize=4096)
def _nearest(wanted: str, known: tuple[str, ...]) -> str:
    words = _words(wanted)
    # "A100" may be several devices, and "a10-24gb", the nearest in letters, is none of them.
    longer = [entry for entry in known if words and words <= _words(entry.lower())]
    if len(longer) > 1:
        near = difflib.get_close_matches(wanted, longer, n=MAXIMUM_NAMES, cutoff=0.0)
        more = f" and {len(longer) - len(near)} more" if len(longer) > len(near) else ""
        return "; known ones are " + ", ".join(f"'{entry}'" for entry in near) + more
    found = _closest(wanted, longer or known)
    return f"; the nearest known one is '{found}'" if found else ""


def _closest(wanted: str, known: Sequence[str]) -> str | None:
    """The name most like another; of equally like ones the last in the alphabet. Names that cannot be are not compared in full."""
    matcher = difflib.SequenceMatcher(a="", b=wanted)
    best, found = -1.0, None
    for entry in sorted(known, reverse=True):
        matcher.set_seq1(entry)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, found = ratio, entry
    return found


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9.]+", name))


def _into(document: Any, location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The part of pydantic's location that leads into the document; the names of union members that it adds do not."""
    node: Any = document
    path: list[str | int] = []
    for index, step in enumerate(location):
        if isinstance(step, int):
            if isinstance(node, list) and step < len(node):
                path.append(step)
                node = node[step]
        elif isinstance(node, dict) and (step in node or index == len(location) - 1):
            path.append(step)
            node = node.get(step)
    return tuple(path)


def known_fields(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """Names of the fields that the model knows at a place."""
    models = [model]
    for step in path:
        if isinstance(step, str):
            fields = [found.model_fields[step] for found in models if step in found.model_fields]
            models = [inner for field in fields for inner in _models(field.annotation)]
    return sorted({name for found in models for name in found.model_fields})


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Every model that an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated, list, tuple, dict):
        return [found for argument in get_args(annotation) for found in _models(argument)]
    return []
