"""The OpenAPI document: committed, complete, and true: schemathesis calls everything it describes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import migration
from tests.conftest import settings_for

SNAPSHOT = Path(__file__).resolve().parents[1] / "openapi" / "openapi.json"
OPERATIONS = ("/healthz", "/readyz", "/metrics")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    url = URL.create("sqlite", database=str(tmp_path_factory.mktemp("openapi") / "x.db"))
    found: dict[str, Any] = create_app(settings_for(url)).openapi()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_the_snapshot_is_the_app(document: dict[str, Any]) -> None:
    assert json.loads(SNAPSHOT.read_text()) == json.loads(json.dumps(document)), "run: python -m service openapi > openapi/openapi.json"


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation["operationId"]), where
        assert set(operation["tags"]) <= tags and operation["tags"], where
        assert operation["summary"] and operation["description"], where
        for parameter in operation.get("parameters", []):
            assert parameter.get("description") or parameter["in"] == "path", (where, parameter["name"])


def test_every_body_has_an_example_that_is_taken(document: dict[str, Any], client: TestClient) -> None:
    for method, path, operation in operations(document):
        if "requestBody" not in operation or "{" in path:
            continue
        content = operation["requestBody"]["content"]["application/json"]
        answer = client.request(method, path, json=content["example"])
        assert answer.status_code in (200, 201, 404), (path, answer.text)  # 404: it refers to something that is not here


def test_every_problem_is_documented_as_a_problem(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        for status, response in operation["responses"].items():
            if status.startswith(("4", "5")):
                assert list(response["content"]) == ["application/problem+json"], (method, path, status)
        if path not in OPERATIONS:
            assert {"401", "403", "422", "503"} <= operation["responses"].keys(), (method, path)
            assert operation["security"], (method, path)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_endpoint_but_operations_asks_for_a_key(document: dict[str, Any], secured: TestClient) -> None:
    for method, path, _ in operations(document):
        answer = secured.request(method, re.sub(r"{\w+}", "01a22821-40ab-78a5-b807-d1c163bdb43b", path), json={})
        assert answer.status_code == (200 if path in OPERATIONS else 401), (method, path)


def test_names_carry_their_unit(document: dict[str, Any]) -> None:
    """`memory` says nothing of bytes or GiB; `memory_bytes` does."""
    bare = {"memory", "bandwidth", "duration", "size", "time", "storage", "flops_rate"}
    for name, schema in document["components"]["schemas"].items():
        assert not bare & schema.get("properties", {}).keys(), name


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    url = URL.create("sqlite", database=str(tmp_path_factory.mktemp("schemathesis") / "x.db"))
    migration.upgrade(url)
    return create_app(settings_for(url))


@pytest.fixture(scope="module")
def api_schema(described: FastAPI) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", described)


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 25


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in operations(json.loads(SNAPSHOT.read_text()))])
def test_everything_described_answers_as_described(api_schema: Any, method: str, path: str) -> None:
    @given(case=api_schema[path][method].as_strategy())
    @hypothesis_settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def call(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    call()


def test_the_page_says_what_there_is_without_its_scripts(document: dict[str, Any], client: TestClient) -> None:
    """A cluster without a way out sees every operation and where the document is; a proxy's prefix is kept."""
    html = client.get("/docs").text
    place = html[html.index('<div id="swagger-ui">') : html.index("<script")]
    for method, path, operation in operations(document):
        assert f"{method} {path}" in place and operation["summary"].replace("'", "&#x27;") in place
    assert 'href="/openapi.json"' in place
    assert "url: '/openapi.json'" in html
