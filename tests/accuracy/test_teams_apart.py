"""What one team measures no other learns, by factors, counts, intervals or errors; unless all sides agreed, and then no team's alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.keys import repository as keys
from service.kit import security
from service.learning import drivers, sharing
from service.learning.drivers import Evidence, Facts
from tests.accuracy.test_endpoints import HOURS, SPEC, STEP, plain
from tests.conftest import settings_for

SCOPES = ("quotes:write", "quotes:read", "actuals:write", "accuracy:read", "calibrations:write")
Headers = dict[str, str]


def record(client: TestClient, team: Headers, ratio: float, code: str = STEP) -> None:
    quoted = client.post("/v1/quotes", json={**SPEC, "calibration": "none"}, headers=team).json()
    value = {"code": code, "value": plain(quoted, code) * ratio, "method": "test"}
    body = {"attempt": 1, "outcome": "completed", "covers": ["training"], "source": "test", "measurements": [value]}
    assert client.post(f"/v1/quotes/{quoted['id']}/actuals", json=body, headers=team).status_code == 201


def seen(client: TestClient, team: Headers) -> dict[str, Any]:
    """Everything that is learnt, as the team sees it."""
    made = client.post("/v1/calibrations", json={}, headers=team).json()
    quoted = client.post("/v1/quotes", json=SPEC, headers=team).json()
    evidence = client.get(f"/v1/quotes/{quoted['id']}/evidence", headers=team).json()
    return {
        "factors": made["factors"],
        "evidence count": made["evidence"],
        "items": quoted["items"],
        "summary": quoted["summary"],
        "warnings": quoted["warnings"],
        "evidence": evidence,
        "accuracy": client.get("/v1/accuracy", headers=team).json(),
        "accuracy by device": client.get("/v1/accuracy?group_by=device&group_by=team", headers=team).json(),
        "backtest": client.post("/v1/backtests", json={}, headers=team).json(),
    }


@pytest.mark.parametrize("own", [0, 3])
def test_nothing_that_a_team_sees_depends_on_what_another_records(secured: TestClient, make_key: Callable[..., Headers], own: int) -> None:
    a, b = make_key("a", *SCOPES), make_key("b", *SCOPES)
    for _ in range(own):
        record(secured, b, 1.2)
    before = seen(secured, b)
    for index in range(19):
        record(secured, a, 0.34 if index % 2 else 1.8, code=(STEP, HOURS)[index % 3 == 0])
    secured.post("/v1/calibrations", json={}, headers=a)
    assert seen(secured, b) == before
    assert bool(before["factors"]) == (own > 0)


@pytest.fixture
def sharing_service(database_url: URL) -> Any:
    with TestClient(create_app(settings_for(database_url, auth="required", shared_learning=True))) as client:
        yield client


def keyed(client: TestClient, team: str, *, shares: bool) -> Headers:
    from datetime import UTC, datetime

    with client.app.state.database.write() as work:  # type: ignore[attr-defined]
        key = keys.create_key(work.connection, team, SCOPES, datetime.now(UTC))
        assert security.share_learning(work.connection, team, shares, datetime.now(UTC))
        work.commit()
    return {"Authorization": f"Bearer {key}"}


def test_teams_that_agreed_learn_from_enough_others_and_from_nobody_alone(sharing_service: TestClient) -> None:
    client = sharing_service
    asking = keyed(client, "asking", shares=True)
    silent = keyed(client, "silent", shares=False)
    givers = [keyed(client, f"giver{n}", shares=True) for n in range(5)]
    for giver in givers[:4]:
        for _ in range(7):
            record(client, giver, 1.5)
    for _ in range(6):
        record(client, silent, 9.0)  # it did not agree
    assert seen(client, asking)["factors"] == []  # four teams are too few
    for _ in range(40):
        record(client, givers[4], 5.0)
    found = seen(client, asking)
    assert found["evidence count"] == 35  # seven of each: the newest team has no more weight than the middle one
    assert found["accuracy"]["rows"] == []
    assert not any("team=" in row["cell"] for row in found["factors"])
    (shared,) = [row for row in found["factors"] if row["cell"].startswith("device=")]
    assert 1.2 < shared["factor"] < 2.2  # 5.0 of forty runs stays the word of one team in five
    assert seen(client, silent)["evidence count"] == 6  # who does not give does not take


def an_entry(run: int, ratio: float) -> Evidence:
    facts = Facts(team="x", cluster="secret", device="h100-sxm-80gb", stack="megatron", method="full", model_family="llama")
    return Evidence(run=str(run), code=STEP, log_ratio=math.log(ratio), facts=facts)


def test_what_is_let_in_has_no_names_and_keeps_its_order() -> None:
    others = [(f"team {index % 6}", an_entry(index, 1 + index / 100)) for index in range(60)]
    kept = sharing.from_others(others)
    assert [entry.log_ratio for entry in kept] == sorted(entry.log_ratio for _, entry in others)
    assert {(entry.facts.team, entry.facts.cluster) for entry in kept} == {("*", None)}
    assert len({entry.run for entry in kept}) == 60
    assert sharing.from_others(others[:29]) == []  # too few runs
    assert sharing.from_others([(f"team {index % 4}", entry) for index, (_, entry) in enumerate(others)]) == []  # too few teams
    fits = drivers.learn(kept)
    assert set(fits[STEP].cells) >= {"global", "device=h100-sxm-80gb,stack=megatron"}
