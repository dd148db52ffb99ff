"""What answers say to browsers and caches; the page of documentation loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.quotes import examples
from tests.conftest import settings_for


@pytest.mark.parametrize("path", ["/healthz", "/v1/quotes", "/v1/devices", "/nowhere", "/docs", "/metrics", "/openapi.json"])
def test_no_type_is_guessed_nothing_is_loaded_and_nothing_kept(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "no-store" in headers["cache-control"] or "etag" in headers


def test_failures_say_so_too(secured: TestClient) -> None:
    answer = secured.get("/v1/quotes")
    assert answer.status_code == 401
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_loads_its_scripts_from_here_and_may_run_no_others(client: TestClient) -> None:
    answer = client.get("/docs")
    assert "://" not in re.sub(r"<script>.*?</script>", "", answer.text, flags=re.DOTALL)
    loaded = re.findall(r'(?:src|href)="(/docs/[^"]+)"', answer.text)
    assert len(loaded) == 3
    for path in loaded:
        file = client.get(path)
        assert file.status_code == 200 and len(file.content) > 1000, path
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{known}'" in answer.headers["content-security-policy"]
    assert client.get("/docs/__init__.py").status_code == 404


def test_a_redirect_stays_here_whatever_host_was_asked_for(client: TestClient) -> None:
    answer = client.get("/v1/quotes/?limit=1", headers={"Host": "evil.example"}, follow_redirects=False)
    assert answer.status_code == 307
    assert answer.headers["location"] == "/v1/quotes?limit=1"


def test_a_long_path_is_not_given_back(client: TestClient) -> None:
    answer = client.get("/v1/" + "a" * 5000)
    assert answer.status_code == 404
    assert len(answer.content) < 1000


def test_pages_of_other_origins_may_call_only_where_a_setting_names_them(database_url: URL) -> None:
    ask = {"Origin": "https://runs.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    with TestClient(create_app(settings_for(database_url))) as client:
        assert "access-control-allow-origin" not in client.options("/v1/quotes", headers=ask).headers
        assert "access-control-allow-origin" not in client.get("/v1/quotes", headers=ask).headers
    with TestClient(create_app(settings_for(database_url, cors_origins="https://runs.example https://other.example"))) as client:
        assert client.options("/v1/quotes", headers=ask).headers["access-control-allow-origin"] == "https://runs.example"
        made = client.post("/v1/quotes", json=examples.SPEC, headers={"Origin": "https://runs.example"})
        assert made.status_code == 201 and "Location" in made.headers["access-control-expose-headers"]
        assert "access-control-allow-origin" not in client.get("/v1/quotes", headers={"Origin": "https://evil.example"}).headers
