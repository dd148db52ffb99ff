"""The closed loop over HTTP: quotes, actuals, accuracy, calibration, the next quote; on both engines."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.accuracy import query, rollup
from service.kit.database import Database

SPEC: dict[str, Any] = {
    "labels": {"team": "search", "run": "nightly"},
    "external_ref": {"system": "slurm", "id": "cluster-a/1"},
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10_000_000_000},
    "sequence_length": 8192,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 4},
    "precision": {"recipe": "bf16_mixed"},
    "software": {"stack": "fsdp_native"},
    "parallelism": {"sharding": "zero3"},
    "activation_checkpointing": "full",
    "hardware": {"device": "h100-sxm-80gb", "device_count": 64},
}
HOURS, STEP, RATE, PEAK = "device_hours.run", "time.step", "throughput.input_tokens_per_second", "memory.peak_allocated"


def quote(client: TestClient, **changes: Any) -> dict[str, Any]:
    response = client.post("/v1/quotes", json={**SPEC, **changes})
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()
    return found


def item(quoted: dict[str, Any], code: str) -> dict[str, Any]:
    found: dict[str, Any] = next(entry for entry in quoted["items"] if entry["code"] == code)
    return found


def plain(quoted: dict[str, Any], code: str) -> float:
    """The estimate before any correction."""
    entry = item(quoted, code)
    value: float = entry["uncalibrated"] if entry.get("uncalibrated") is not None else entry["expected"]
    return value


def measure(client: TestClient, quoted: dict[str, Any], values: dict[str, float], *, days_ago: float = 0, **more: Any) -> dict[str, Any]:
    end = datetime.now(UTC) - timedelta(days=days_ago)
    body = {
        "attempt": 1,
        "outcome": "completed",
        "covers": ["training", "startup", "checkpointing", "evaluation", "restarts"],
        "ended_at": end.isoformat(),
        "device_count": 64,
        "source": "test",
        "measurements": [{"code": code, "value": value, "method": "test"} for code, value in values.items()],
        **more,
    }
    response = client.post(f"/v1/quotes/{quoted['id']}/actuals", json=body)
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()
    return found


def accuracy(client: TestClient, **parameters: Any) -> list[dict[str, Any]]:
    response = client.get("/v1/accuracy", params=parameters)
    assert response.status_code == 200, response.text
    rows: list[dict[str, Any]] = response.json()["rows"]
    return rows


def history(client: TestClient, ratios: list[float], code: str = HOURS) -> None:
    quoted = [quote(client) for _ in ratios]
    for index, (one, ratio) in enumerate(zip(quoted, ratios, strict=True)):
        measure(client, one, {code: plain(one, code) * ratio}, days_ago=len(ratios) - index)


def test_accuracy_equals_numpy_and_both_ways_of_answering_agree(
    client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = [0.8, 1.1, 1.25, 1.4, 0.97, 1.05, 1.6]
    history(client, ratios)
    (row,) = accuracy(client, code=HOURS, group_by=["device", "method", "team"])
    assert row["group"] == {"device": "h100-sxm-80gb", "method": "full", "team": "default"}
    assert (row["n"], row["code"], row["exact"], row["drift"]) == (7, HOURS, True, None)
    errors = np.abs(1 / np.array(ratios) - 1)
    assert row["bias"] == pytest.approx(np.median(np.log(ratios)))
    assert row["median_absolute_percentage_error"] == pytest.approx(np.median(errors))
    assert row["p90_absolute_percentage_error"] == pytest.approx(np.percentile(errors, 90))
    assert 0 <= row["coverage_low"] <= row["interval_coverage"] <= row["coverage_high"] <= 1

    monkeypatch.setattr(query, "EXACT_ROWS", 2)
    for groups in ([], ["day"], ["week", "device"], ["label.team"], ["month", "label.run", "stack"]):
        rough = accuracy(client, code=HOURS, group_by=groups)
        monkeypatch.setattr(query, "EXACT_ROWS", 1000)
        exact = accuracy(client, code=HOURS, group_by=groups)
        monkeypatch.setattr(query, "EXACT_ROWS", 2)
        assert [(one["group"], one["n"]) for one in rough] == [(one["group"], one["n"]) for one in exact]
        for one, other in zip(rough, exact, strict=True):
            assert (one["exact"], other["exact"]) == (False, True)
            for name in ("interval_coverage", "coverage_low", "coverage_high"):
                assert one[name] == other[name]
            assert one["pinball_loss"] == pytest.approx(other["pinball_loss"], abs=1e-5)
            for name in ("bias", "median_absolute_percentage_error", "p90_absolute_percentage_error"):
                assert one[name] == pytest.approx(other[name], rel=0.02, abs=1e-4)


def test_windows_labels_and_unknown_groups(client: TestClient) -> None:
    history(client, [1.1, 1.2, 1.3])
    other = quote(client, labels={"team": "ads"})
    measure(client, other, {HOURS: plain(other, HOURS) * 2}, days_ago=40)
    assert [row["n"] for row in accuracy(client, code=HOURS)] == [4]
    assert [row["n"] for row in accuracy(client, code=HOURS, window="30d")] == [3]
    assert [row["n"] for row in accuracy(client, code=HOURS, window="2d")] == [1]  # today and yesterday
    assert accuracy(client, code="memory.peak_process") == []  # an item that nobody measured
    by_label = accuracy(client, code=HOURS, group_by=["label.team"])
    assert [(row["group"], row["n"]) for row in by_label] == [({"label.team": "ads"}, 1), ({"label.team": "search"}, 3)]
    assert [row["n"] for row in accuracy(client, code=HOURS, **{"label.team": "ads"})] == [1]
    two = accuracy(client, code=HOURS, group_by=["label.run"], **{"label.team": "search"})
    assert [(row["group"], row["n"]) for row in two] == [({"label.run": "nightly"}, 3)]
    for bad in ({"group_by": "weather"}, {"window": "30"}, {"window": "0d"}, {"group_by": ["day", "day"]}, {"colour": "red"}):
        assert client.get("/v1/accuracy", params=bad).status_code == 422, bad


def test_rates_are_inverted(client: TestClient) -> None:
    one = quote(client)
    measure(client, one, {RATE: plain(one, RATE) / 1.1})
    (row,) = accuracy(client, code=RATE)
    assert row["bias"] == pytest.approx(-math.log(1.1))
    assert row["median_absolute_percentage_error"] == pytest.approx(1 - 1 / 1.1)


def test_late_and_corrected_values_leave_what_a_rebuild_gives(client: TestClient, database: Database) -> None:
    quoted = [quote(client) for _ in range(4)]
    found = [measure(client, one, {HOURS: plain(one, HOURS) * 1.2, PEAK: plain(one, PEAK)}, days_ago=3) for one in quoted]
    measure(client, quoted[0], {HOURS: plain(quoted[0], HOURS) * 0.4}, days_ago=2, attempt=2)  # a second attempt adds its hours
    first = next(entry for entry in found[1]["items"] if entry["code"] == HOURS)
    correction = {"code": HOURS, "value": plain(quoted[1], HOURS) * 1.5, "method": "test", "corrects": first["id"]}
    measure(client, quoted[1], {}, days_ago=3, measurements=[correction])
    failed = quote(client)
    measure(client, failed, {HOURS: plain(failed, HOURS) * 0.1}, outcome="failed", covers=["training"])  # a bound, not a point
    kept = rollup.contents(database.engine)
    assert kept
    assert rollup.rebuild(database) == 8
    assert rollup.contents(database.engine) == kept
    (row,) = accuracy(client, code=HOURS)
    assert row["n"] == 4
    assert row["bias"] == pytest.approx(np.median(np.log([1.6, 1.5, 1.2, 1.2])))


def test_histograms_survive_writers_at_once(client: TestClient, database: Database) -> None:
    quoted = [quote(client) for _ in range(8)]
    end = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    statuses: list[int] = []

    def post(one: dict[str, Any]) -> None:
        body = {
            "attempt": 1,
            "outcome": "completed",
            "ended_at": end,
            "source": "test",
            "measurements": [{"code": code, "value": plain(one, code) * 1.1, "method": "test"} for code in (HOURS, PEAK, STEP)],
        }
        statuses.append(client.post(f"/v1/quotes/{one['id']}/actuals", json=body).status_code)

    threads = [threading.Thread(target=post, args=(one,)) for one in quoted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [201] * 8
    kept = rollup.contents(database.engine)
    assert {row["n"] for row in kept} == {8}
    rollup.rebuild(database)
    assert rollup.contents(database.engine) == kept


def test_the_next_quote_has_learnt(client: TestClient) -> None:
    before = quote(client)
    assert before["calibration_version"] is None and item(before, STEP)["basis"] == "prior"
    rng = np.random.default_rng(1)
    for _ in range(10):
        one = quote(client)
        slower = 1.4 * math.exp(rng.normal() * 0.03)
        measure(client, one, {STEP: plain(one, STEP) * slower, HOURS: plain(one, HOURS) * slower * 1.1, PEAK: plain(one, PEAK) * 0.9})
    made = client.post("/v1/calibrations")
    assert made.status_code == 201, made.text
    version = made.json()["version"]
    assert made.json()["evidence"] == 30
    narrowest = max(made.json()["factors"], key=lambda row: len(row["cell"]))
    assert set(narrowest) == {"cell", "code", "factor", "n", "low", "high"} and narrowest["n"] == 10

    after = quote(client)
    assert after["calibration_version"] == version
    step, hours, peak = item(after, STEP), item(after, HOURS), item(after, PEAK)
    assert (step["basis"], step["n"]) == ("calibrated", 10)
    assert step["uncalibrated"] == item(before, STEP)["expected"]
    assert step["expected"] == pytest.approx(step["factor"] * step["uncalibrated"])
    assert step["factor"] == pytest.approx(1.4, rel=0.05)
    assert step["low"] < step["expected"] < step["high"]
    # One slowness is corrected once: hours are 1.4 x 1.1 of the formulas', not 1.4 x 1.4 x 1.1.
    assert hours["expected"] / item(before, HOURS)["expected"] == pytest.approx(1.54, rel=0.05)
    assert hours["basis"] == "calibrated" and hours["uncalibrated"] == item(before, HOURS)["expected"]
    assert peak["factor"] == pytest.approx(0.9, rel=0.02)
    # Nothing is corrected in silence: whatever differs says so.
    unlike = [entry for entry in after["items"] if entry["expected"] != item(before, entry["code"])["expected"]]
    assert unlike and all(entry["basis"] == "calibrated" and entry["n"] and "uncalibrated" in entry for entry in unlike)

    # Learning again from corrected quotes learns the same: errors are of the formulas, never of the corrected value.
    for _ in range(5):
        one = quote(client)
        assert item(one, STEP)["basis"] == "calibrated"
        measure(client, one, {STEP: plain(one, STEP) * 1.4, HOURS: plain(one, HOURS) * 1.54, PEAK: plain(one, PEAK) * 0.9})
    assert client.post("/v1/calibrations", json={}).json()["version"] == "v2"
    again = quote(client)
    assert item(again, STEP)["factor"] == pytest.approx(1.4, rel=0.03)
    assert item(again, HOURS)["expected"] / item(before, HOURS)["expected"] == pytest.approx(1.54, rel=0.05)

    # Pinned, switched off, unknown.
    assert quote(client, calibration=version)["items"] == after["items"]
    assert quote(client, calibration="none")["items"] == before["items"]
    assert quote(client, calibration="none")["calibration_version"] is None
    unknown = client.post("/v1/quotes", json={**SPEC, "calibration": "v77"})
    assert unknown.status_code == 422 and unknown.json()["errors"][0]["pointer"] == "/calibration"
    # A speed that the caller gave is not corrected.
    given = quote(client, efficiency={"mfu": 0.4})
    assert item(given, STEP)["basis"] == "given"
    # A team on another cluster inherits what the device and stack have in common.
    elsewhere = quote(client, labels={"team": "ads"}, external_ref={"system": "slurm", "id": "cluster-b/1"})
    inherited = item(elsewhere, STEP)
    assert inherited["basis"] == "calibrated" and 1 < inherited["factor"] < 1.4


def test_hours_alone_are_enough_to_learn(client: TestClient) -> None:
    history(client, [2.9] * 6)
    client.post("/v1/calibrations")
    found = item(quote(client), HOURS)
    assert found["basis"] == "calibrated" and found["factor"] == pytest.approx(2.9, rel=0.1)


def test_calibrations_are_listed_and_never_change(client: TestClient) -> None:
    history(client, [1.2, 1.3], STEP)
    made = [client.post("/v1/calibrations", json={"half_life_runs": 10, "window": "90d"}).json() for _ in range(3)]
    assert [one["version"] for one in made] == ["v1", "v2", "v3"]
    page = client.get("/v1/calibrations", params={"limit": 2})
    assert [one["version"] for one in page.json()["items"]] == ["v3", "v2"]
    rest = client.get(page.links["next"]["url"]).json()
    assert rest["items"] == [made[0]] and rest["next_cursor"] is None
    assert client.get("/v1/calibrations", params={"cursor": "x"}).status_code == 422
    for bad in ({"window": "soon"}, {"half_life_runs": 0}, {"half_life": 3}):
        assert client.post("/v1/calibrations", json=bad).status_code == 422
    key = {"Idempotency-Key": "k1"}
    first = client.post("/v1/calibrations", json={}, headers=key)
    replay = client.post("/v1/calibrations", json={}, headers=key)
    assert first.json() == replay.json() and replay.headers["Idempotency-Replayed"] == "true"


def test_a_backtest_replays_history_in_order(client: TestClient) -> None:
    history(client, [1.5] * 8, STEP)
    rows = client.post("/v1/backtests", json={"code": STEP}).json()["rows"]
    assert [row["engine"] for row in rows] == ["uncalibrated", "calibrated", "last_similar"]
    plainly, learnt, last = rows
    assert plainly["n"] == learnt["n"] == 8 and last["n"] == 7
    assert plainly["median_absolute_percentage_error"] == pytest.approx(1 / 3)
    assert learnt["median_absolute_percentage_error"] < 0.1
    assert last["median_absolute_percentage_error"] == pytest.approx(0, abs=1e-9)
    assert learnt["common"]["n"] == 7
    assert client.post("/v1/backtests", json={}).json()["rows"][0]["code"] == STEP
    assert client.post("/v1/backtests", json={"code": "tokens.input"}).status_code == 422


def test_teams_see_their_own_figures_alone(secured: TestClient, make_key: Callable[..., dict[str, str]]) -> None:
    scopes = ("quotes:write", "quotes:read", "actuals:write", "accuracy:read", "calibrations:write")
    one, other = make_key("one", *scopes), make_key("other", *scopes)
    quoted = secured.post("/v1/quotes", json=SPEC, headers=one).json()
    value = {"code": STEP, "value": plain(quoted, STEP) * 1.5, "method": "test"}
    body = {"attempt": 1, "outcome": "completed", "source": "test", "measurements": [value]}
    assert secured.post(f"/v1/quotes/{quoted['id']}/actuals", json=body, headers=one).status_code == 201
    assert secured.get("/v1/accuracy", headers=one).json()["rows"]
    assert secured.get("/v1/accuracy", headers=other).json()["rows"] == []
    assert secured.post("/v1/backtests", json={}, headers=other).json()["rows"] == []
    made = secured.post("/v1/calibrations", headers=other).json()
    assert (made["factors"], made["evidence"]) == ([], 0)
    assert any("team=one" in row["cell"] for row in secured.post("/v1/calibrations", headers=one).json()["factors"])
    # Versions are the team's own.
    assert [row["version"] for row in secured.get("/v1/calibrations", headers=other).json()["items"]] == ["v1"]
    assert secured.post("/v1/calibrations", headers=make_key("one", "accuracy:read")).status_code == 403
    assert secured.get("/v1/accuracy", headers=make_key("one", "quotes:read")).status_code == 403
    assert secured.get("/v1/accuracy").status_code == 401


@pytest.mark.parametrize(("code", "near"), [("device_hours.rum", "device_hours.run"), ("nonsense", None)])
def test_a_code_that_is_none_is_refused(client: TestClient, code: str, near: str | None) -> None:
    """An empty answer would say that nothing was off."""
    response = client.get("/v1/accuracy", params={"code": code})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["parameter"] == "code"
    assert near is None or near in error["detail"]


def test_a_part_that_was_measured_is_a_code(client: TestClient) -> None:
    """Parts that the contract does not list may be measured, and are then known."""
    part = "time.step.matrix"
    assert client.get("/v1/accuracy", params={"code": part}).status_code == 422
    quoted = quote(client)
    measure(client, quoted, {part: 1.1 * item(quoted, part)["expected"]})
    assert [row["n"] for row in accuracy(client, code=part)] == [1]


def test_several_labels_of_too_many_runs_are_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows would all be read into memory."""
    for name in ("a", "b"):
        quoted = quote(client, labels={"team": "search", "run": name})
        measure(client, quoted, {HOURS: plain(quoted, HOURS)})
    labels = {"label.team": "search", "label.run": "a"}
    assert [row["n"] for row in accuracy(client, **labels)] == [1]
    monkeypatch.setattr(query, "MOST_ROWS", 1)
    response = client.get("/v1/accuracy", params=labels)
    assert response.status_code == 422 and response.json()["errors"][0]["parameter"] == "window"
    assert [row["n"] for row in accuracy(client, **{"label.run": "a"})] == [1]
