"""Which calibration a quote takes: the newest, which is not looked up for every quote."""

from __future__ import annotations

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.calibrations import corrections, repository
from service.quotes import examples
from tests.conftest import settings_for


def test_the_next_quote_takes_a_new_calibration_and_other_processes_take_it_within_a_second(
    client: TestClient, database_url: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest calibration is looked up once a second; the process that makes one knows at once."""
    now = [1000.0]
    monkeypatch.setattr(corrections.time, "monotonic", lambda: now[0])

    def version(of: TestClient) -> str | None:
        found: str | None = of.post("/v1/quotes/preview", json=examples.SPEC).json()["calibration_version"]
        return found

    with TestClient(create_app(settings_for(database_url))) as other:
        assert (version(client), version(other)) == (None, None)
        assert client.post("/v1/calibrations", json={}).status_code == 201
        assert (version(client), version(other)) == ("v1", None)
        now[0] += 1.0
        assert version(other) == "v1"


def test_the_newest_calibration_is_looked_up_once_a_second(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    newest_id = repository.newest_id
    monkeypatch.setattr(repository, "newest_id", lambda *arguments: looks.append(1) or newest_id(*arguments))
    monkeypatch.setattr(corrections.time, "monotonic", lambda: 1000.0)
    for _ in range(3):
        assert client.post("/v1/quotes/preview", json=examples.SPEC).status_code == 200
    assert len(looks) == 1
