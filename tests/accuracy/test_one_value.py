"""One measured value on its way: from a posted document, through every stop that can be asked for it, to the team's accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import Connection
from starlette.testclient import TestClient

from service.accuracy import history, rollup
from service.actuals import repository
from service.actuals.measurement import KeptMeasurement
from service.kit.database import Database

# What the run is quoted as is of no matter here, but that its hours are of the order of those measured.
SPEC: dict[str, Any] = {
    "labels": {"team": "search"},
    "external_ref": {"system": "slurm", "id": "alpha/77"},
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10_000_000_000},
    "sequence_length": 8192,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 4},
    "parallelism": {"sharding": "zero3"},
    "software": {"stack": "fsdp_native"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 64},
}
HOURS, CLOCK = "device_hours.run", "time.wall_clock"
# A job of 25 hours on 64 devices as `sacct -P` prints it, beside one that nobody quoted.
ACCOUNTING = """\
JobID|Cluster|State|Start|End|ElapsedRaw|AllocTRES
76|alpha|COMPLETED|2026-01-05T08:00:00+00:00|2026-01-05T09:00:00+00:00|3600|gres/gpu=8
77|alpha|COMPLETED|2026-01-05T08:00:00+00:00|2026-01-06T09:00:00+00:00|90000|gres/gpu=64
"""
DEVICE_HOURS = 25 * 64  # by hand
BODY = {"format": "sacct_parsable", "document": ACCOUNTING}


def quoted(client: TestClient) -> tuple[str, float]:
    """The id of a quote of job 77, and the device-hours it estimates."""
    response = client.post("/v1/quotes", json=SPEC)
    assert response.status_code == 201, response.text
    made = response.json()
    return made["id"], next(entry["expected"] for entry in made["items"] if entry["code"] == HOURS)


def answered(client: TestClient, path: str, **parameters: Any) -> Any:
    """The body of a GET."""
    response = client.get(path, params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def of(rows: Sequence[Any], code: str) -> Any:
    """The one row of a code."""
    (found,) = [row for row in rows if row["code"] == code]
    return found


def kept(database: Database, quote_id: str) -> list[KeptMeasurement]:
    """The measurements of a quote as the database gives them back."""
    with database.read() as connection:
        team_id = connection.exec_driver_sql("SELECT team_id FROM measurements LIMIT 1").scalar_one_or_none()
        return [] if team_id is None else repository.all_of(connection, team_id, quote_id)


def test_hours_in_a_posted_document_are_the_same_hours_at_every_stop_up_to_accuracy(client: TestClient, database: Database) -> None:
    quote_id, estimated = quoted(client)
    posted = client.post("/v1/actuals", json=BODY)
    assert posted.status_code == 201, posted.text
    bias = math.log(DEVICE_HOURS / estimated)

    # Matched with its quote by the cluster and number of its job, and kept.
    recorded = of(posted.json()["items"], HOURS)
    assert (recorded["quote_id"], recorded["job_id"], recorded["value"]) == (quote_id, "77", DEVICE_HOURS)
    assert (recorded["device_count"], recorded["outcome"], recorded["basis"]) == (64, "completed", "allocated")
    assert recorded["ended_at"] == "2026-01-06T09:00:00.000000Z"
    assert recorded["estimated"] == estimated
    assert recorded["log_ratio"] == pytest.approx(bias, rel=1e-12)
    (unquoted,) = [part["detail"] for part in posted.json()["ignored"]]
    assert unquoted.startswith("job 76 ")

    # Listed, and set beside the quote.
    assert of(answered(client, f"/v1/quotes/{quote_id}/actuals")["items"], HOURS) == recorded
    compared = of(answered(client, f"/v1/quotes/{quote_id}/comparison")["rows"], HOURS)
    assert (compared["measured"], compared["estimated"]) == (DEVICE_HOURS, estimated)
    assert compared["ratio"] == pytest.approx(DEVICE_HOURS / estimated, rel=1e-12)
    assert compared["measurement_ids"] == [recorded["id"]]

    # Counted: in figures of all runs, of its device and of the month in which it ended.
    for group_by, group in (([], {}), (["device"], {"device": "h100-sxm-80gb"}), (["month"], {"month": "2026-01"})):
        row = of(answered(client, "/v1/accuracy", code=HOURS, group_by=group_by)["rows"], HOURS)
        assert (row["n"], row["group"]) == (1, group)
        assert row["bias"] == pytest.approx(bias, rel=1e-12)
        assert row["median_absolute_percentage_error"] == pytest.approx(abs(estimated / DEVICE_HOURS - 1), rel=1e-12)
    assert answered(client, "/v1/accuracy", code=HOURS, window="1d")["rows"] == [], "counted on the day it ended, not when posted"

    # Learnt from: what a calibration is fitted to has the same error.
    team_ids = {one.team_id for one in kept(database, quote_id)}
    assert len(team_ids) == 1
    with database.read() as connection:
        learnt = [one.past for one in history.evidence(connection, begin=None, team_ids=[*team_ids], codes=[HOURS], limit=10)]
        assert history.evidence(connection, begin=None, team_ids=["another"], codes=[HOURS], limit=10) == []
    assert [past.log_error for past in learnt] == [pytest.approx(bias, rel=1e-12)]

    # The same document again adds nothing anywhere.
    counted = rollup.contents(database.engine)
    again = client.post("/v1/actuals", json=BODY)
    assert again.status_code == 200 and again.json() == posted.json()
    assert rollup.contents(database.engine) == counted


def test_what_followers_are_told_is_what_the_database_gives_back(app: FastAPI, client: TestClient, database: Database) -> None:
    """One type from recording to accuracy: nothing of a measurement is lost, and nothing added, by keeping it."""
    told: list[KeptMeasurement] = []
    app.state.measurement_followers = (*app.state.measurement_followers, lambda _, new: told.extend(new))
    quote_id, _ = quoted(client)
    assert client.post("/v1/actuals", json=BODY).status_code == 201
    value = {"code": "time.step", "value": 3.25, "method": "log", "excludes": ["warmup", "compile"], "flags": ["host_timed"]}
    more = {**value, "scope": "max", "repeats": 7, "spread": 0.125}
    by_hand = {"attempt": 3, "outcome": "failed", "covers": ["startup", "training"], "steps_completed": 5, "measurements": [more]}
    made = client.post(f"/v1/quotes/{quote_id}/actuals", json=by_hand)
    assert made.status_code == 201, made.text
    step = {"code": "time.step", "value": 3.5, "method": "log", "scope": "max", "corrects": made.json()["items"][0]["id"]}
    corrected = client.post(f"/v1/quotes/{quote_id}/actuals", json={**by_hand, "measurements": [step]})
    assert corrected.status_code == 201, corrected.text

    assert {one.measurement.code for one in told} == {HOURS, CLOCK, "time.step"}
    assert sorted(kept(database, quote_id), key=lambda one: one.measurement.id) == sorted(told, key=lambda one: one.measurement.id)
    assert any(one.replaces_id for one in told) and any(one.measurement.corrects_id for one in told)


def test_a_measurement_and_its_daily_figures_are_kept_together_or_not_at_all(app: FastAPI, client: TestClient, database: Database) -> None:
    def breaks(_: Connection, __: Sequence[KeptMeasurement]) -> None:
        raise RuntimeError("a follower broke")

    followers = app.state.measurement_followers
    quote_id, _ = quoted(client)
    app.state.measurement_followers = (*followers, breaks)
    with pytest.raises(RuntimeError, match="a follower broke"):
        client.post("/v1/actuals", json=BODY)
    assert kept(database, quote_id) == []
    assert rollup.contents(database.engine) == []
    assert answered(client, f"/v1/quotes/{quote_id}")["status"] != "measured"

    app.state.measurement_followers = followers
    assert client.post("/v1/actuals", json=BODY).status_code == 201
    assert of(answered(client, "/v1/accuracy", code=HOURS)["rows"], HOURS)["n"] == 1
