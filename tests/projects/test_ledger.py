"""Ledgers: the seeds' figures through the API, shares, money by given rates alone, and options without a winner."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.projects.ledger import AMOUNTS, Effect, Entry, Rate, ledger, suggested

SEEDS = {case["id"]: case for case in json.loads((Path(__file__).parents[1] / "cases" / "seed_figures.json").read_text())["cases"]}
DEVICE = "h100-sxm-80gb"


def project(client: TestClient, **more: Any) -> str:
    response = client.post("/v1/projects", json={"name": "search-assistant", **more})
    assert response.status_code == 201, response.text
    found: str = response.json()["id"]
    return found


def enter(client: TestClient, project_id: str, **entry: Any) -> dict[str, Any]:
    response = client.post(f"/v1/projects/{project_id}/entries", json={"stage": "training", **entry})
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()
    return found


def read(client: TestClient, project_id: str) -> dict[str, Any]:
    response = client.get(f"/v1/projects/{project_id}/ledger")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_seed_ten_explorations_of_which_one_is_final(client: TestClient) -> None:
    case = SEEDS["ledger.exploration"]
    given_, expected = case["given"], case["expect"]
    project_id = project(client)
    for number in range(given_["exploration_runs"]):
        enter(client, project_id, device=DEVICE, device_hours=given_["hours_each"], final=number == 7)
    found = read(client, project_id)
    assert found["totals"]["device_hours"] == {DEVICE: expected["total_exploration_hours"]}
    assert found["explorations"]["device_hours"] == {DEVICE: expected["total_exploration_hours"]}
    assert found["final"]["device_hours"] == {DEVICE: expected["final_run_hours"]}
    assert found["final"]["is_exploration"] is True
    assert found["final"]["share"]["device_hours"] == {DEVICE: 0.1}
    assert any("one of the explorations" in note for note in found["notes"])


def test_seed_two_devices_for_an_hour(client: TestClient) -> None:
    case = SEEDS["ledger.device_hours"]
    project_id = project(client)
    entry = enter(client, project_id, device=DEVICE, device_count=case["given"]["devices"], hours=case["given"]["hours"])
    assert entry["device_hours"] == case["expect"]["device_hours"]
    assert read(client, project_id)["totals"]["device_hours"] == {DEVICE: case["expect"]["device_hours"]}


def test_a_final_run_apart_from_the_explorations(client: TestClient) -> None:
    project_id = project(client)
    for _ in range(10):
        enter(client, project_id, device=DEVICE, device_hours=2)
    enter(client, project_id, device=DEVICE, device_hours=5, final=True, exploration=False)
    enter(client, project_id, device="a100-sxm-80gb", device_hours=30, outcome="failed")
    found = read(client, project_id)
    assert found["explorations"]["device_hours"] == {"a100-sxm-80gb": 30, DEVICE: 20}
    assert found["explorations"]["unsuccessful"] == 1
    assert found["final"]["is_exploration"] is False
    assert found["final"]["share"]["device_hours"] == {"a100-sxm-80gb": 0, DEVICE: 0.2}
    assert [row["outcome"] for row in found["outcomes"]] == ["completed", "failed"]


def test_stages_amounts_and_money(client: TestClient) -> None:
    rates = [
        {"resource": "device_hour", "device": DEVICE, "amount": "2.10", "currency": "USD", "source": "contract", "date": "2026-11-01"},
        {"resource": "human_hour", "amount": "55", "currency": "USD"},
    ]
    project_id = project(client, rates=rates)
    enter(client, project_id, stage="data_preparation", cpu_hours=120.5, bytes=5 * 10**12)
    enter(client, project_id, stage="generation", device=DEVICE, device_hours=3.3, tokens=10**9)
    enter(client, project_id, stage="human_review", human_hours=12)
    found = read(client, project_id)
    assert [row["stage"] for row in found["stages"]] == ["data_preparation", "generation", "human_review"]
    assert (found["totals"]["cpu_hours"], found["totals"]["tokens"], found["totals"]["bytes"]) == (120.5, 10**9, 5 * 10**12)
    (money,) = found["money"]
    # 3.3 x 2.10 + 12 x 55, exactly; CPU-hours have no rate, so the whole has none.
    assert (money["amount"], money["priced_amount"], money["reason"]) == (None, "666.93", "no rate for cpu_hour")
    assert found["final"]["share"] is None and found["final"]["reason"]
    other = client.post("/v1/projects", json={"name": "free"}).json()["id"]
    enter(client, other, device=DEVICE, device_hours=1)
    assert read(client, other)["money"] == []


def test_options_are_compared_without_a_winner(client: TestClient) -> None:
    project_id = project(client)
    enter(client, project_id, name="fast", device=DEVICE, device_hours=1, effect={"metric": "accuracy", "value": 0.70})
    enter(client, project_id, name="good", device=DEVICE, device_hours=9, effect={"accuracy": 0.80})
    enter(client, project_id, name="bad", device=DEVICE, device_hours=10, effect={"accuracy": 0.75})
    enter(client, project_id, name="other kind", device="a100-sxm-80gb", device_hours=100, effect={"accuracy": 0.60})
    enter(client, project_id, name="two parts", option="both", device=DEVICE, device_hours=2)
    enter(client, project_id, option="both", device=DEVICE, device_hours=3, effect={"val_loss": 1.9})
    found = read(client, project_id)["options"]
    rows = {row["name"]: row for row in found["rows"]}
    assert {name: row["pareto"] for name, row in rows.items()} == {
        "fast": True,
        "good": True,
        "bad": False,
        "other kind": True,  # its hours are of another device: neither more nor less
        "both": True,  # another metric
    }
    assert rows["bad"]["dominated_by"] == ["good"]
    assert rows["both"]["cost"]["device_hours"] == {DEVICE: 5}
    assert found["metrics"] == [{"metric": "accuracy", "better": "higher"}, {"metric": "val_loss", "better": "lower"}]


def test_measured_attempts_of_the_projects_quotes_are_in_the_ledger(client: TestClient) -> None:
    project_id = project(client)
    spec = {
        "project": "search-assistant",
        "name": "run",
        "model": {"preset": "llama-3.1-8b"},
        "data": {"total_tokens": 10**9},
        "sequence_length": 4096,
        "hardware": {"device": DEVICE, "device_count": 8},
    }
    quotes = [client.post("/v1/quotes", json=spec).json()["id"] for _ in range(2)]
    for attempt, outcome, hours in ((1, "failed", 3.0), (2, "completed", 10.0)):
        body = {
            "attempt": attempt,
            "outcome": outcome,
            "source": "slurm",
            "measurements": [{"code": "device_hours.run", "value": hours, "method": "scheduler accounting", "basis": "allocated"}],
        }
        for quote in quotes:
            response = client.post(f"/v1/quotes/{quote}/actuals", json=body)
            assert response.status_code == 201, response.text
    # A second tool watched the same attempt: its hours are not added.
    watched = {"attempt": 2, "outcome": "completed", "source": "wandb", "device_count": 8}
    watched["measurements"] = [{"code": "time.wall_clock", "value": 4400, "method": "runtime"}]
    assert client.post(f"/v1/quotes/{quotes[0]}/actuals", json=watched).status_code == 201
    found = read(client, project_id)
    assert found["totals"]["device_hours"] == {DEVICE: 26}
    assert {row["outcome"]: row["device_hours"][DEVICE] for row in found["outcomes"]} == {"completed": 20, "failed": 6}
    assert found["explorations"]["unsuccessful"] == 2
    # The second quote's run is the final one; what it cost is what was measured, failed attempt included.
    enter(client, project_id, name="final", quote_id=quotes[1], final=True, effect={"accuracy": 0.8})
    found = read(client, project_id)
    assert found["totals"]["device_hours"] == {DEVICE: 26}
    assert found["final"]["device_hours"] == {DEVICE: 13}
    assert found["options"]["rows"][0]["cost"]["device_hours"] == {DEVICE: 13}


def test_entries_are_corrected_not_overwritten(client: TestClient) -> None:
    project_id = project(client)
    first = enter(client, project_id, device=DEVICE, device_hours=100)
    enter(client, project_id, device=DEVICE, device_hours=10, corrects=first["id"], note="a slip")
    assert read(client, project_id)["totals"]["device_hours"] == {DEVICE: 10}
    again = client.post(f"/v1/projects/{project_id}/entries", json={"stage": "training", "device_hours": 1, "corrects": first["id"]})
    assert again.status_code == 409
    key = {"Idempotency-Key": "e1"}
    body = {"stage": "validation", "device": DEVICE, "device_hours": 1}
    one = client.post(f"/v1/projects/{project_id}/entries", json=body, headers=key)
    two = client.post(f"/v1/projects/{project_id}/entries", json=body, headers=key)
    assert one.json() == two.json() and two.headers["Idempotency-Replayed"] == "true"
    assert read(client, project_id)["totals"]["device_hours"] == {DEVICE: 11}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"stage": "cooking", "device_hours": 1}, "/stage"),
        ({"stage": "training", "device_hours": -1}, "/device_hours"),
        ({"stage": "training", "gpu_hours": 1}, "/gpu_hours"),
        ({"stage": "training"}, ""),
        ({"stage": "training", "hours": 2}, "/device_count"),
        ({"stage": "training", "hours": 2, "device_count": 2, "device_hours": 3}, "/device_hours"),
        ({"stage": "training", "device_hours": 1, "outcome": "lost"}, "/outcome"),
        ({"stage": "training", "quote_id": "nope"}, "/quote_id"),
        ({"stage": "training", "device_hours": 1, "corrects": "nope"}, "/corrects"),
    ],
)
def test_bad_entries_say_where(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    response = client.post(f"/v1/projects/{project(client)}/entries", json=body)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert pointer in [error["pointer"] for error in response.json()["errors"]] or pointer == ""


def test_projects_are_the_teams_own(secured: TestClient, make_key: Callable[..., dict[str, str]]) -> None:
    one, other = make_key("one", "quotes:write", "quotes:read"), make_key("other", "quotes:write", "quotes:read")
    project_id = secured.post("/v1/projects", json={"name": "p"}, headers=one).json()["id"]
    assert secured.post("/v1/projects", json={"name": "p"}, headers=one).status_code == 409
    assert secured.post("/v1/projects", json={"name": "p"}, headers=other).status_code == 201
    for path in (f"/v1/projects/{project_id}/ledger", "/v1/projects/none/ledger"):
        assert secured.get(path, headers=other).status_code == 404
    assert (
        secured.post(f"/v1/projects/{project_id}/entries", json={"stage": "training", "device_hours": 1}, headers=other).status_code == 404
    )
    assert [row["name"] for row in secured.get("/v1/projects", headers=one).json()["items"]] == ["p"]
    assert secured.get("/v1/projects").status_code == 401


entries = st.lists(
    st.builds(
        Entry,
        id=st.uuids().map(str),
        stage=st.sampled_from(["training", "validation", "rerun"]),
        outcome=st.sampled_from(["completed", "failed"]),
        final=st.booleans(),
        device=st.sampled_from([None, "a", "b"]),
        device_hours=st.none() | st.integers(0, 1000).map(float),
        cpu_hours=st.none() | st.integers(0, 1000).map(float),
        tokens=st.none() | st.integers(0, 10**12),
        effects=st.sampled_from([(), (Effect(metric="accuracy", value=0.5),), (Effect(metric="accuracy", value=0.7),)]),
    ),
    max_size=12,
)


@given(entries)
def test_parts_add_up_whatever_the_entries(found: list[Entry]) -> None:
    whole = ledger(found, [Rate(resource="device_hour", amount=Decimal("1.5"), currency="EUR")])
    for part in ("stages", "outcomes"):
        hours: dict[str, float] = {}
        for row in whole[part]:
            for device, value in row["device_hours"].items():
                hours[device] = hours.get(device, 0) + value
        assert hours == whole["totals"]["device_hours"]
        for name in AMOUNTS:
            known = [row[name] for row in whole[part] if row[name] is not None]
            assert (sum(known) if known else None) == whole["totals"][name]
    assert sum(row["entries"] for row in whole["stages"]) == len(found)
    rows = whole["options"]["rows"]
    assert not rows or any(row["pareto"] for row in rows)


@pytest.mark.parametrize(
    ("metric", "better"),
    [("accuracy", "higher"), ("val_loss", "lower"), ("eval/perplexity", "lower"), ("closs", "higher"), ("error-rate", "lower")],
)
def test_which_way_a_metric_is_better(metric: str, better: str) -> None:
    assert suggested(metric) == better


def test_a_price_of_storage_is_said_to_price_nothing() -> None:
    """Bytes have no months here: the rate is not dropped without a word."""
    entries = [Entry(id="a", stage="data_preparation", bytes=10**12)]
    storage = Rate(resource="storage_gib_month", amount=Decimal("0.02"), currency="USD")
    assert any("storage_gib_month" in note for note in ledger(entries, [storage])["notes"])
    assert not any("storage_gib_month" in note for note in ledger(entries, [])["notes"])
