"""One caller cannot take all of the service: rates, requests at once, a lane for heavy ones, and connections that never finish."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import security
from service.kit.limits import GIVEN_WAY_SECONDS, MOST_GIVEN_WAY_SECONDS, Limits, Way
from service.kit.problems import TooManyRequests
from service.quotes import examples
from tests.conftest import settings_for
from tests.test_command_line import serving


def limits(clock: list[float], **values: Any) -> Limits:
    return Limits(**{"key_per_second": 5, "team_per_second": 8, "team_at_once": 100, "heavy_at_once": 1, **values}, now=lambda: clock[0])


def admitted(limits: Limits, key: str, team: str, asked: int) -> int:
    """How many of so many requests at the same moment are admitted."""
    count = 0
    for _ in range(asked):
        try:
            limits.admit({"type": "http"}, key_id=key, team_id=team)
        except TooManyRequests:
            continue
        count += 1
    return count


def test_a_key_has_two_seconds_worth_at_once_and_its_rate_from_then_on() -> None:
    clock = [0.0]
    counted = limits(clock)
    assert admitted(counted, "a", "search", 50) == 10  # 2 x 5
    clock[0] = 1.0
    assert admitted(counted, "a", "search", 50) == 5
    clock[0] = 100.0
    assert admitted(counted, "a", "search", 50) == 10


def test_keys_of_a_team_share_the_team_s_and_another_team_has_its_own() -> None:
    counted = limits([0.0])
    assert admitted(counted, "a", "search", 10) + admitted(counted, "b", "search", 10) == 16  # 2 x 8
    assert admitted(counted, "c", "vision", 10) == 10


@pytest.fixture
def strict(database_url: URL) -> Iterator[TestClient]:
    with TestClient(create_app(settings_for(database_url, auth="required", key_requests_per_second=1, team_requests_at_once=1))) as client:
        yield client


def test_who_asks_too_often_is_told_when_to_come_back(secured: TestClient, make_key: Any, strict: TestClient) -> None:
    headers, other = make_key("search", "quotes:read"), make_key("vision", "quotes:read")
    answers = [strict.get("/v1/quotes", headers=headers) for _ in range(8)]
    assert answers[0].status_code == 200
    assert answers[0].headers["ratelimit-policy"].startswith('"key";q=2;w=2, "team"')
    assert answers[0].headers["ratelimit"].startswith('"key";r=1;t=1')
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused and all(answer.headers["retry-after"] == "1" for answer in refused)
    assert refused[0].json()["type"] == "urn:runquote:problem:too-many-requests"
    assert strict.get("/v1/quotes", headers=other).status_code == 200


def test_a_team_has_so_many_requests_at_once(secured: TestClient, make_key: Any, strict: TestClient) -> None:
    headers = make_key("search", "quotes:read")
    running: dict[str, Any] = {"type": "http"}
    counted: Limits = strict.app.state.limits  # type: ignore[attr-defined]
    counted.admit(running, key_id="another", team_id=_team_id(secured, "search"))
    assert strict.get("/v1/quotes", headers=headers).status_code == 429
    for release in running["releases"]:
        release()
    assert strict.get("/v1/quotes", headers=headers).status_code == 200


def _team_id(client: TestClient, name: str) -> str:
    with client.app.state.database.read() as connection:  # type: ignore[attr-defined]
        return security.ensure_team(connection, name, None)  # type: ignore[arg-type]  # it is there: no moment is needed


def test_heavy_requests_wait_for_each_other_and_others_for_none() -> None:
    async def walk() -> list[str]:
        seen: list[str] = []
        counted = limits([0.0])
        first: dict[str, Any] = {"path": "/v1/quotes/batch"}
        await counted.lane(first)

        async def second() -> None:
            await counted.lane({"path": "/v1/plans"})
            seen.append("heavy")

        waiting = asyncio.create_task(second())
        await counted.lane({"path": "/v1/quotes/preview"})
        await asyncio.sleep(0)
        seen.append("light")
        first["releases"][0]()
        await waiting
        return seen

    assert asyncio.run(walk()) == ["light", "heavy"]


def test_a_heavy_request_lets_light_ones_go_first_and_is_not_held_up_for_ever() -> None:
    counted = limits([0.0])
    slept: list[float] = []
    way = Way(lambda: counted._light > 0, sleep=slept.append)
    way.give()
    counted.begin({"path": "/v1/quotes/batch"})
    way.give()
    assert slept == []  # nobody is there but heavy ones
    light: dict[str, Any] = {"path": "/v1/quotes/preview"}
    counted.begin(light)
    way.give()
    assert sum(slept) == pytest.approx(GIVEN_WAY_SECONDS)
    for _ in range(2000):
        way.give()
    assert sum(slept) == pytest.approx(MOST_GIVEN_WAY_SECONDS, abs=0.001)
    light["releases"][0]()
    assert counted._light == 0


def test_places_in_the_lane_are_given_back_whatever_the_answer(client: TestClient) -> None:
    for body in ({"specs": [examples.SPEC]}, {"specs": []}, {}, {"specs": [{}]}) * 3:
        assert client.post("/v1/quotes/batch", json=body).status_code in (200, 201, 422)


def test_a_head_without_end_and_one_that_is_never_finished_are_cut(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, _, _):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as endless:
            sent = 0
            endless.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
            with pytest.raises(OSError):
                while sent < 50_000_000:
                    sent += endless.send(b"X-Filler: " + b"x" * 4000 + b"\r\n")
                raise AssertionError(f"{sent} bytes of a head were taken")
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(lambda part: _closed(host, int(port), part), [b"", b"GET /he", b"GET /healthz HTTP/1.1\r\nHost:"])) == {b""}
        with socket.create_connection((host, int(port)), timeout=30) as kept:  # one that ends its heads is served again and again
            for _ in range(3):
                kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                answer = b""
                while not answer.endswith(b"}"):
                    answer += kept.recv(65536)
                assert answer.startswith(b"HTTP/1.1 200 OK")


def _closed(host: str, port: int, part: bytes) -> bytes:
    """What a connection that sends this much, and then nothing, is told; times out where it is left open."""
    with socket.create_connection((host, port), timeout=40) as half:
        half.sendall(part)
        return half.recv(1024)


def test_a_body_that_does_not_come_is_408(tmp_path: Path) -> None:
    with serving(tmp_path, RUNQUOTE_BODY_SECONDS="0.5") as (address, _, _):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as half:
            half.sendall(b"POST /v1/quotes HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            assert b" 408 " in half.recv(65536)
