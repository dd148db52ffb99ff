"""What is worked out of stored rows takes time in proportion to them, and there is an end to how many one thing may have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.actuals import recording
from service.actuals.comparing import compare
from service.actuals.measurement import Measurement
from service.actuals.quoted import Quoted
from service.projects import repository
from service.projects.ledger import MOST_RIVALS, Effect, Entry, ledger
from service.quotes import examples
from tests.growth.measure import grows_in_proportion

START = datetime(2026, 1, 1, tzinfo=UTC)
QUOTED = Quoted(items={}, steps=1000, device_count=8, device_memory_bytes=85e9, interval_coverage=0.8)


def measured(i: int, **changes: Any) -> Measurement:
    window = {"started_at": START + timedelta(hours=2 * i), "ended_at": START + timedelta(hours=2 * i + 1)}
    base = {"id": f"m{i:06}", "source": "slurm", "attempt": i + 1, "code": "device_hours.run", "value": 8.0, "method": "accounting"}
    return Measurement(**{**base, **window, "outcome": "failed" if i % 2 else "completed", **changes})


def tries(n: int) -> list[Measurement]:
    """Every second one failed without saying what it covers."""
    return [measured(i) for i in range(n)]


def methods(n: int) -> list[Measurement]:
    return [measured(i, attempt=1, method=f"m{i}") for i in range(n)]


def corrections(n: int) -> list[Measurement]:
    """Each corrects the one before."""
    return [measured(i, attempt=1, corrects_id=f"m{i - 1:06}" if i else None) for i in range(n)]


@pytest.mark.parametrize("rows", [tries, methods, corrections])
def test_a_comparison_takes_time_proportional_to_what_was_measured(rows: Any) -> None:
    grows_in_proportion(rows, lambda made: compare(QUOTED, made), 500, most=4_000)


def entries(n: int) -> list[Entry]:
    return [Entry(id=f"e{i}", stage="training", device="h100", device_hours=1.0 + i % 7, name=f"n{i}") for i in range(n)]


def test_a_ledger_takes_time_proportional_to_its_entries() -> None:
    grows_in_proportion(entries, ledger, 500, most=4_000)


def test_options_are_set_beside_each_other_quickly_enough_and_told_of_so_many_better_ones() -> None:
    """Each is cheaper than the one before at the same effect: the answer named n (n - 1) / 2 rivals."""

    def better_and_better(n: int) -> list[Entry]:
        return [
            Entry(
                id=f"e{i}",
                stage="training",
                device="h100",
                device_hours=float(n - i),
                name=f"n{i}",
                effects=(Effect(metric="f1", value=0.5),),
            )
            for i in range(n)
        ]

    grows_in_proportion(better_and_better, ledger, 100, most=400)
    rows = ledger(better_and_better(60))["options"]["rows"]
    assert [len(row["dominated_by"]) for row in rows] == [min(59 - i, MOST_RIVALS) for i in range(60)]
    assert [row["pareto"] for row in rows] == [False] * 59 + [True]
    assert rows[0]["dominated_by"] == [f"n{i}" for i in range(1, MOST_RIVALS + 1)]


def test_a_quote_has_so_many_measurements_and_a_project_so_many_entries(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_MEASUREMENTS", 3)
    quote = client.post("/v1/quotes", json=examples.SPEC).json()["id"]
    for attempt, status in ((1, 201), (2, 201), (3, 201), (4, 409), (3, 200)):
        body = {"attempt": attempt, "measurements": [{"code": "device_hours.run", "value": 10}]}
        answer = client.post(f"/v1/quotes/{quote}/actuals", json=body)
        assert answer.status_code == status, answer.text
    monkeypatch.setattr(repository, "MOST_ENTRIES", 1)
    project = client.post("/v1/projects", json={"name": "p"}).json()["id"]
    entry = {"stage": "training", "device_hours": 1}
    assert [client.post(f"/v1/projects/{project}/entries", json=entry).status_code for _ in range(2)] == [201, 409]


def test_more_notes_of_a_document_than_are_told_are_counted(client: TestClient) -> None:
    quote = client.post("/v1/quotes", json=examples.SPEC).json()["id"]
    ended = {"job_id": 1, "state": {"current": ["COMPLETED"]}, "time": {"elapsed": 3600}}
    jobs = [{"job_id": 1, "state": {"current": ["RUNNING"]}}] * 1200
    body = {"format": "sacct_json", "device_count": 8, "document": {"jobs": [*jobs, ended]}}
    ignored = client.post(f"/v1/quotes/{quote}/actuals", json=body).json()["ignored"]
    assert len(ignored) == 1001 and ignored[-1] == {"pointer": "", "detail": "and 200 further parts"}


def test_a_document_of_more_jobs_than_are_read_at_a_time_is_refused(client: TestClient) -> None:
    body = {"format": "sacct_json", "document": {"jobs": [{"job_id": i, "state": {"current": ["RUNNING"]}} for i in range(20_001)]}}
    answer = client.post("/v1/actuals", json=body)
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/document/jobs"]
