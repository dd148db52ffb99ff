"""A client of an application with an empty SQLite database, one for a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import migration
from tests.conftest import settings_for

Preview = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Keys are off; everything belongs to one team."""
    url = URL.create("sqlite", database=str(tmp_path_factory.mktemp("contract") / "contract.db"))
    migration.upgrade(url)
    with TestClient(create_app(settings_for(url))) as client:
        yield client


@pytest.fixture
def preview(client: TestClient) -> Preview:
    """`preview(model=..., ...)`: the quote, its items by code under `by`."""

    def ask(**spec: Any) -> dict[str, Any]:
        response = client.post("/v1/quotes/preview", json=spec)
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        document["by"] = {item["code"]: item for item in document["items"]}
        return document

    return ask
