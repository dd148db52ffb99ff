"""A repeated POST answers what the first one answered: once made, never twice, whatever happens in between."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update
from starlette.testclient import TestClient

from service import app as application
from service.kit import idempotency
from service.kit.database import Database
from service.kit.idempotency import idempotency_keys
from service.quotes import examples, issuing, repository
from service.settings import Settings

KEY = {"Idempotency-Key": "9b6f0f3e"}


def count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(repository.quotes)).scalar_one())


def test_the_same_key_and_equal_json_answer_the_first_result(client: TestClient, database: Database) -> None:
    first = client.post("/v1/quotes", json=examples.SPEC, headers=KEY)
    assert first.status_code == 201
    assert "idempotency-replayed" not in first.headers
    reordered = dict(reversed(examples.SPEC.items())) | {"sequence_length": 8192.0}
    for body in (examples.SPEC, reordered):
        again = client.post("/v1/quotes", json=body, headers=KEY)
        assert again.status_code == 201
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["location"] == first.headers["location"]
        assert again.text == first.text
    assert count(database) == 1


def test_other_json_is_422(client: TestClient, database: Database) -> None:
    client.post("/v1/quotes", json=examples.SPEC, headers=KEY)
    other = client.post("/v1/quotes", json={**examples.SPEC, "sequence_length": 4096}, headers=KEY)
    assert other.status_code == 422
    assert other.json()["type"] == "urn:runquote:problem:idempotency-key-reused"
    assert count(database) == 1


def test_a_key_belongs_to_a_path(client: TestClient, database: Database) -> None:
    first = client.post("/v1/quotes", json=examples.SPEC, headers=KEY)
    batch = client.post("/v1/quotes/batch", json={"specs": [examples.SPEC]}, headers=KEY)
    revision = client.post(first.headers["location"] + "/revisions", json={"spec": {"sequence_length": 4096}}, headers=KEY)
    assert [batch.status_code, revision.status_code] == [201, 201]
    assert count(database) == 3
    assert client.post("/v1/quotes/batch", json={"specs": [examples.SPEC]}, headers=KEY).text == batch.text
    assert (
        client.post(first.headers["location"] + "/revisions", json={"spec": {"sequence_length": 4096}}, headers=KEY).text == revision.text
    )
    assert count(database) == 3


def test_a_key_belongs_to_a_team(secured: TestClient, make_key: Any) -> None:
    answers = [
        secured.post("/v1/quotes", json=examples.SPEC, headers=KEY | make_key(team, "quotes:write")) for team in ("search", "vision")
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["id"] != answers[1].json()["id"]


def test_a_request_that_fails_gives_the_key_back(client: TestClient, database: Database) -> None:
    assert client.post("/v1/quotes", json={}, headers=KEY).status_code == 422
    assert client.post("/v1/quotes", json=examples.SPEC, headers=KEY).status_code == 201
    assert count(database) == 1


def test_while_the_first_is_running_others_are_409(client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    running, go_on = threading.Event(), threading.Event()
    price = issuing.price

    def slow(*arguments: Any, **named: Any) -> Any:
        running.set()
        assert go_on.wait(20)
        return price(*arguments, **named)

    monkeypatch.setattr(issuing, "price", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/v1/quotes", json=examples.SPEC, headers=KEY)
        assert running.wait(20)
        second = client.post("/v1/quotes", json=examples.SPEC, headers=KEY)
        other = client.post("/v1/quotes", json={**examples.SPEC, "name": "another"}, headers=KEY)
        go_on.set()
        assert first.result().status_code == 201
    assert second.status_code == 409
    assert second.json()["type"] == "urn:runquote:problem:still-running"
    assert second.headers["retry-after"]
    assert other.status_code == 422
    assert client.post("/v1/quotes", json=examples.SPEC, headers=KEY).text == first.result().text
    assert count(database) == 1


def test_of_many_at_once_one_makes_and_the_rest_replay_or_wait(client: TestClient, database: Database) -> None:
    keys = [f"race-{index}" for index in range(4)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda key: client.post("/v1/quotes", json=examples.SPEC, headers={"Idempotency-Key": key}), keys * 8))
    assert set(Counter(answer.status_code for answer in answers)) <= {201, 409}
    made = {answer.json()["id"] for answer in answers if answer.status_code == 201}
    assert len(made) == len(keys) == count(database)


def test_a_reservation_whose_process_died_lapses(client: TestClient, database: Database) -> None:
    assert client.post("/v1/quotes", json=examples.SPEC, headers=KEY).status_code == 201
    for age, status in ((idempotency.LEASE / 2, 409), (idempotency.LEASE * 2, 201)):
        with database.write() as work:
            abandoned = {"status": None, "body": None, "created_at": datetime.now(UTC) - age}
            work.connection.execute(update(idempotency_keys).values(abandoned))
            work.commit()
        assert client.post("/v1/quotes", json=examples.SPEC, headers=KEY).status_code == status


def test_retry_after_says_when_the_key_of_a_dead_process_is_free(client: TestClient, database: Database) -> None:
    assert client.post("/v1/quotes", json=examples.SPEC, headers=KEY).status_code == 201
    abandoned = {"status": None, "body": None, "created_at": datetime.now(UTC)}
    with database.write() as work:
        work.connection.execute(update(idempotency_keys).values(abandoned))
        work.commit()
    refused = client.post("/v1/quotes", json=examples.SPEC, headers=KEY)
    assert refused.status_code == 409
    assert 0 < int(refused.headers["retry-after"]) <= 6  # seconds: not a minute, as callers wait
    time.sleep(int(refused.headers["retry-after"]))
    assert client.post("/v1/quotes", json=examples.SPEC, headers=KEY).status_code == 201


def test_a_request_that_runs_longer_than_a_reservation_keeps_it_while_its_process_lives(
    client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "LEASE", timedelta(seconds=1))
    monkeypatch.setattr(idempotency, "RENEWED_SECONDS", 0.1)
    running, go_on = threading.Event(), threading.Event()
    price = issuing.price

    def slow(*arguments: Any, **named: Any) -> Any:
        running.set()
        assert go_on.wait(20)
        return price(*arguments, **named)

    monkeypatch.setattr(issuing, "price", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/v1/quotes", json=examples.SPEC, headers=KEY)
        assert running.wait(20)
        time.sleep(2)  # twice its reservation
        assert client.post("/v1/quotes", json=examples.SPEC, headers=KEY).status_code == 409
        go_on.set()
        assert first.result().status_code == 201
    assert count(database) == 1


def test_one_that_was_taken_for_dead_makes_nothing_twice(client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "RENEWED_SECONDS", 3600)  # a process that is frozen
    running, go_on = threading.Event(), threading.Event()
    price = issuing.price

    def slow(*arguments: Any, **named: Any) -> Any:
        if not running.is_set():
            running.set()
            assert go_on.wait(20)
        return price(*arguments, **named)

    monkeypatch.setattr(issuing, "price", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/v1/quotes", json=examples.SPEC, headers=KEY)
        assert running.wait(20)
        with database.write() as work:
            work.connection.execute(update(idempotency_keys).values(created_at=datetime.now(UTC) - idempotency.LEASE * 2))
            work.commit()
        second = client.post("/v1/quotes", json=examples.SPEC, headers=KEY)
        go_on.set()
        assert (second.status_code, first.result().status_code) == (201, 409)
    assert client.post("/v1/quotes", json=examples.SPEC, headers=KEY).text == second.text
    assert count(database) == 1


def test_a_key_is_forgotten_after_a_day(client: TestClient, database: Database) -> None:
    first = client.post("/v1/quotes", json=examples.SPEC, headers=KEY).json()
    with database.write() as work:
        work.connection.execute(update(idempotency_keys).values(created_at=datetime.now(UTC) - timedelta(hours=24, seconds=1)))
        work.commit()
    second = client.post("/v1/quotes", json={**examples.SPEC, "name": "another"}, headers=KEY)
    assert second.status_code == 201
    assert second.json()["id"] != first["id"]


def test_old_keys_are_removed(client: TestClient, database: Database) -> None:
    client.post("/v1/quotes", json=examples.SPEC, headers=KEY)
    assert idempotency.forget_expired(database) == 0
    with database.write() as work:
        work.connection.execute(update(idempotency_keys).values(created_at=datetime.now(UTC) - timedelta(hours=25)))
        work.commit()
    assert idempotency.forget_expired(database) == 1


def test_they_are_removed_while_the_service_runs(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of batches are large: a service that runs for months would keep them all."""
    monkeypatch.setattr(application, "SWEEP_SECONDS", 0.05)
    app = application.create_app(settings)
    with TestClient(app) as client:
        client.post("/v1/quotes", json=examples.SPEC, headers=KEY)
        with app.state.database.write() as work:
            work.connection.execute(update(idempotency_keys).values(created_at=datetime.now(UTC) - timedelta(hours=25)))
            work.commit()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with app.state.database.read() as connection:
                if connection.execute(select(func.count()).select_from(idempotency_keys)).scalar_one() == 0:
                    return
            time.sleep(0.02)
    pytest.fail("the key is still there")


@pytest.mark.parametrize("key", ["", "a" * 256, "with space", "tab\there"])
def test_keys_are_short_and_plain(client: TestClient, key: str) -> None:
    answer = client.post("/v1/quotes", json=examples.SPEC, headers={"Idempotency-Key": key})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "Idempotency-Key"
