"""Actuals over HTTP on both engines: appended once, replayed, corrected, compared."""

from __future__ import annotations

import itertools
import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select
from starlette.testclient import TestClient

from service.actuals.repository import measurements
from tests.actuals.test_trainer_readers import JOB, megatron_line, titan_line

CASES = Path(__file__).parents[1] / "cases"
SLURM = CASES / "slurm"
SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10_000_000_000},
    "sequence_length": 8192,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 4},
    "parallelism": {"sharding": "zero3"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 64},
    "efficiency": {"mfu": 0.4},
    "labels": {"team": "search"},
}
HOURS = {"code": "device_hours.run", "value": 900, "method": "scheduler accounting", "basis": "allocated"}
PEAK = {"code": "memory.peak_allocated", "value": 6.1e10, "method": "torch.cuda.max_memory_allocated", "scope": "max"}
ATTEMPT: dict[str, Any] = {
    "attempt": 1,
    "outcome": "completed",
    "covers": ["training", "evaluation", "checkpointing"],
    "steps_completed": 4000,
    "started_at": "2026-01-05T08:00:00Z",
    "ended_at": "2026-01-05T22:03:45Z",
    "device_count": 64,
    "source": "slurm",
    "job_id": "123456",
    "measurements": [HOURS, PEAK],
}


def quote(client: TestClient, **changes: Any) -> dict[str, Any]:
    """A stored quote."""
    response = client.post("/v1/quotes", json={**SPEC, **changes})
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


def post(client: TestClient, quote_id: str, body: Any, status: int = 201, **headers: str) -> dict[str, Any]:
    """Actuals posted, with the status that is expected."""
    response = client.post(f"/v1/quotes/{quote_id}/actuals", json=body, headers=headers)
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer


def comparison(client: TestClient, quote_id: str) -> dict[str, Any]:
    """The comparison."""
    response = client.get(f"/v1/quotes/{quote_id}/comparison")
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def row(client: TestClient, quote_id: str, code: str) -> dict[str, Any]:
    """The first row of a code."""
    found: dict[str, Any] = next(entry for entry in comparison(client, quote_id)["rows"] if entry["code"] == code)
    return found


def item(made: dict[str, Any], code: str) -> dict[str, Any]:
    """An item of a quote."""
    found: dict[str, Any] = next(entry for entry in made["items"] if entry["code"] == code)
    return found


def pointers(answer: dict[str, Any]) -> list[str]:
    """Where the bad values are."""
    return [entry["pointer"] for entry in answer["errors"]]


def test_recorded_and_compared(client: TestClient) -> None:
    """The contract's example: two values, kept as they are and set beside the quote's items."""
    made = quote(client)
    answer = post(client, made["id"], ATTEMPT)
    assert [(entry["code"], entry["value"]) for entry in answer["items"]] == [
        ("device_hours.run", 900),
        ("memory.peak_allocated", 61000000000),
    ]
    assert answer["items"][0]["started_at"] == "2026-01-05T08:00:00.000000Z" and answer["items"][0]["excludes"] == []
    hours = row(client, made["id"], "device_hours.run")
    estimated = item(made, "device_hours.run")
    assert (hours["estimated"], hours["low"], hours["high"]) == (estimated["expected"], estimated["low"], estimated["high"])
    assert hours["ratio"] == pytest.approx(900 / estimated["expected"]) and hours["attempts"] == 1 and hours["derived"] is False
    assert row(client, made["id"], "memory.peak_allocated")["estimated"] == item(made, "memory.peak_allocated")["expected"]
    assert {"memory.peak_reserved", "memory.peak_process"}.isdisjoint(r["code"] for r in comparison(client, made["id"])["rows"])
    implied = row(client, made["id"], "efficiency.mfu")
    share = 4000 / made["resolved"]["steps"]
    assert implied["derived"] is True
    assert implied["measured"] == pytest.approx(0.4 * item(made, "device_hours.training")["expected"] * share / 900)
    listed = client.get(f"/v1/quotes/{made['id']}/actuals").json()
    assert sorted(entry["id"] for entry in listed["items"]) == sorted(entry["id"] for entry in answer["items"])
    assert client.get(f"/v1/quotes/{made['id']}").json()["status"] == "measured"


def test_lists_page(client: TestClient) -> None:
    """Newest first, with a cursor."""
    made = quote(client)
    for attempt in range(1, 6):
        post(client, made["id"], {**ATTEMPT, "attempt": attempt, "measurements": [HOURS]})
    seen, cursor = [], None
    while True:
        page = client.get(f"/v1/quotes/{made['id']}/actuals", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [entry["attempt"] for entry in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [5, 4, 3, 2, 1]
    assert client.get(f"/v1/quotes/{made['id']}/actuals", params={"cursor": "x"}).status_code == 422


def test_replay_conflict_correction(client: TestClient) -> None:
    """The same value again is 200, another 409; a correction is a new row, and corrected once."""
    made = quote(client)
    first = post(client, made["id"], ATTEMPT)
    assert post(client, made["id"], ATTEMPT, 200) == first
    other = {**ATTEMPT, "measurements": [{**HOURS, "value": 950}]}
    refused = post(client, made["id"], other, 409)
    assert pointers(refused) == ["/measurements/0/value"]
    target = first["items"][0]["id"]
    correct = {**ATTEMPT, "measurements": [{**HOURS, "value": 950, "corrects": target}]}
    corrected = post(client, made["id"], correct)
    assert corrected["items"][0]["corrects"] == target
    assert post(client, made["id"], correct, 200) == corrected
    again = {**ATTEMPT, "measurements": [{**HOURS, "value": 960, "corrects": target}]}
    post(client, made["id"], again, 409)
    chained = {**ATTEMPT, "measurements": [{**HOURS, "value": 960, "corrects": corrected["items"][0]["id"]}]}
    post(client, made["id"], chained)
    assert row(client, made["id"], "device_hours.run")["measured"] == 960
    assert len(client.get(f"/v1/quotes/{made['id']}/actuals").json()["items"]) == 4, "nothing is overwritten"
    assert post(client, made["id"], ATTEMPT, 200) == first, "a late retry of the first is still a replay"


def test_bad_corrections(client: TestClient) -> None:
    """A correction names a measurement of this quote, of the same kind."""
    made, other = quote(client), quote(client)
    elsewhere = post(client, other["id"], ATTEMPT)["items"][0]["id"]
    own = post(client, made["id"], ATTEMPT)["items"]
    for wrong in (elsewhere, "0193aaaa-0000-7000-8000-000000000000", own[1]["id"]):
        body = {**ATTEMPT, "measurements": [{**HOURS, "value": 950, "corrects": wrong}]}
        assert pointers(post(client, made["id"], body, 422)) == ["/measurements/0/corrects"]


def test_idempotency_key(client: TestClient) -> None:
    """By key, besides by what it says."""
    made = quote(client)
    first = post(client, made["id"], ATTEMPT, **{"Idempotency-Key": "k1"})
    again = client.post(f"/v1/quotes/{made['id']}/actuals", json=ATTEMPT, headers={"Idempotency-Key": "k1"})
    assert (again.status_code, again.json(), again.headers["Idempotency-Replayed"]) == (201, first, "true")


def test_two_workers_post_the_same_attempt(client: TestClient, engine: Engine) -> None:
    """One row a value, and no error for either."""
    made = quote(client)
    url = f"/v1/quotes/{made['id']}/actuals"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(url, json=ATTEMPT), range(16)))
    assert sorted({answer.status_code for answer in answers}) == [200, 201]
    assert [answer.status_code for answer in answers].count(201) == 1
    assert len({json.dumps(answer.json()["items"]) for answer in answers}) == 1
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(measurements)).scalar() == 2


def test_two_workers_post_attempts_of_one_run(client: TestClient, engine: Engine) -> None:
    """Unnumbered attempts at once get different numbers; one observation stands."""
    made = quote(client, external_ref={"system": "slurm", "id": "alpha/7"})
    base = {"jobid": 7, "cluster": "alpha", "state": "PREEMPTED", "elapsed": 3600, "tres_alloc": "gres/gpu=64"}
    posts = [{**base, "@start": f"2026-01-01T{h:02d}:00:00", "@end": f"2026-01-01T{h + 1:02d}:00:00"} for h in range(6)]
    posts[-1]["state"] = "COMPLETED"
    bodies = [{"format": "slurm_jobcomp", "document": document} for document in posts * 2]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda body: client.post("/v1/actuals", json=body), bodies))
    assert {answer.status_code for answer in answers} <= {200, 201}
    hours = row(client, made["id"], "device_hours.run")
    assert (hours["measured"], hours["attempts"], hours["attempt_numbers"]) == (6 * 64, 6, [1, 2, 3, 4, 5, 6])
    table = measurements.c
    with engine.connect() as connection:
        replaced = select(table.replaces_id).where(table.replaces_id.is_not(None))
        standing = connection.execute(
            select(table.observed_value, table.censored).where(
                table.code == "device_hours.run", table.observed_value.is_not(None), table.id.not_in(replaced)
            )
        ).all()
    assert standing == [(6 * 64, False)]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"measurements": [{**PEAK, "value": 9e10}]}, "/measurements/0/value"),
        ({"measurements": [HOURS, {**PEAK, "value": -1}]}, "/measurements/1/value"),
        ({"ended_at": "2026-01-05T07:59:59Z"}, "/ended_at"),
        ({"measurements": [{**HOURS, "code": "device_hour.run"}]}, "/measurements/0/code"),
        ({"measurements": [{**PEAK, "code": "memory.peak"}]}, "/measurements/0/code"),
        ({"measurements": [{**PEAK, "scope": "rank1"}]}, "/measurements/0/scope"),
        ({"outcome": "finished"}, "/outcome"),
        ({"covers": ["everything"]}, "/covers/0"),
        ({"attempt": 0}, "/attempt"),
        ({"device_count": 0}, "/device_count"),
        ({"started_at": "yesterday"}, "/started_at"),
        ({"started_at": "2026-01-05T08:00:00"}, "/started_at"),
        ({"measurments": []}, "/measurments"),
        ({"measurements": [], "started_at": None}, "/measurements"),
        ({"format": "sacct_json"}, ""),
        ({"measurements": [], "format": "sacct", "document": {}}, "/format"),
    ],
)
def test_refused_with_a_pointer(client: TestClient, change: dict[str, Any], pointer: str) -> None:
    """Impossible, unknown, misspelt: refused, and nothing is kept."""
    made = quote(client)
    assert pointer in pointers(post(client, made["id"], {**ATTEMPT, **change}, 422))
    assert client.get(f"/v1/quotes/{made['id']}/actuals").json()["items"] == []
    assert client.get(f"/v1/quotes/{made['id']}").json()["status"] == "open"


def test_unknown_code_names_the_nearest(client: TestClient) -> None:
    """As unknown fields do."""
    answer = post(client, quote(client)["id"], {**ATTEMPT, "measurements": [{**PEAK, "code": "memory.peak_alocated"}]}, 422)
    assert "memory.peak_allocated" in answer["errors"][0]["detail"]


def test_implausible_is_kept_and_flagged(client: TestClient) -> None:
    """Minutes for seconds; the caller's own flags stay."""
    made = quote(client)
    slow = {
        "code": "time.step",
        "value": item(made, "time.step")["expected"] * 60,
        "method": "log",
        "flags": ["host_timed"],
        "repeats": 5,
        "spread": 0.02,
    }
    (kept,) = post(client, made["id"], {**ATTEMPT, "measurements": [slow]})["items"]
    assert {"host_timed", "far_from_estimate"} <= set(kept["flags"]) and (kept["repeats"], kept["spread"]) == (5, 0.02)
    assert "far_from_estimate" in row(client, made["id"], "time.step")["flags"]


def test_failed_attempt_with_its_window_alone(client: TestClient) -> None:
    """A try that measured nothing but its time is not lost."""
    made = quote(client)
    body = {key: ATTEMPT[key] for key in ("started_at", "ended_at", "device_count", "source")} | {"outcome": "failed"}
    (kept,) = post(client, made["id"], body)["items"]
    assert (kept["code"], kept["value"], kept["censored"]) == ("device_hours.run", 900.0, False)
    answer = comparison(client, made["id"])
    assert answer["rows"] == [] and answer["attempts"]["lost_device_hours"] == 900.0
    assert client.get(f"/v1/quotes/{made['id']}").json()["status"] == "open"


def test_by_reference(client: TestClient) -> None:
    """The newest revision of the job's quote."""
    reference = {"system": "slurm", "id": "cluster-a/123456"}
    made = quote(client, external_ref=reference)
    revised = client.post(f"/v1/quotes/{made['id']}/revisions", json={"spec": {"efficiency": {"mfu": 0.35}}}).json()
    response = client.post("/v1/actuals", json={**ATTEMPT, "external_ref": reference})
    assert response.status_code == 201, response.text
    assert {entry["quote_id"] for entry in response.json()["items"]} == {revised["id"]}
    unknown = client.post("/v1/actuals", json={**ATTEMPT, "external_ref": {"system": "slurm", "id": "cluster-b/1"}})
    assert unknown.status_code == 404
    assert pointers(client.post("/v1/actuals", json=ATTEMPT).json()) == ["/external_ref"]


# --- Documents ------------------------------------------------------------------------------------------------------


def test_sacct_of_a_day(client: TestClient) -> None:
    """One document with ten records: the quote's own job is chosen, both its attempts count; replayed by another tool."""
    made = quote(client, external_ref={"system": "slurm", "id": "quotetest/6"})
    document = json.loads((SLURM / "debian12_22.05_sacct_json_dbv0.0.38.json").read_text())
    answer = post(client, made["id"], {"format": "sacct_json", "document": document})
    assert [(e["job_id"], e["attempt"], e["code"]) for e in answer["items"] if e["code"] == "device_hours.run"] == [
        ("6", 1, "device_hours.run"),
        ("6", 2, "device_hours.run"),
    ]
    hours = row(client, made["id"], "device_hours.run")
    assert hours["measured"] == pytest.approx((3 + 2) * 8 / 3600) and hours["attempts"] == 2
    table = (SLURM / "debian12_22.05_sacct_P_ALL_duplicates.txt").read_text()
    post(client, made["id"], {"format": "sacct_parsable", "document": table}, 200)
    posts = (SLURM / "debian12_22.05_jobcomp_elasticsearch_POSTs.jsonl").read_text()
    post(client, made["id"], {"format": "slurm_jobcomp", "document": posts}, 200)
    assert row(client, made["id"], "device_hours.run") == hours
    shifted = table.replace("2026-11-29T14:", "2026-11-29T16:")
    post(client, made["id"], {"format": "sacct_parsable", "document": shifted}, 200)
    assert row(client, made["id"], "device_hours.run") == hours, "another zone of the clock is not another attempt"


def test_which_job(client: TestClient) -> None:
    """Of several jobs the caller names one; without a name the document is refused."""
    made = quote(client)
    table = (SLURM / "debian12_22.05_sacct_P_ALL_duplicates.txt").read_text()
    body = {"format": "sacct_parsable", "document": table}
    assert pointers(post(client, made["id"], body, 422)) == ["/job_id"]
    assert pointers(post(client, made["id"], {**body, "job_id": "999"}, 422)) == ["/job_id"]
    answer = post(client, made["id"], {**body, "job_id": "4_1"})
    assert {entry["job_id"] for entry in answer["items"]} == {"9"}
    assert any("attempts of other jobs" in part["detail"] for part in answer["ignored"]), "what is left out is said"


def test_each_job_to_its_quote(client: TestClient) -> None:
    """A document by reference: jobs go to their own quotes, those without one are named."""
    five = quote(client, external_ref={"system": "slurm", "id": "quotetest/5"})
    six = quote(client, external_ref={"system": "slurm", "id": "quotetest/6"})
    posts = (SLURM / "debian12_22.05_jobcomp_elasticsearch_POSTs.jsonl").read_text()
    response = client.post("/v1/actuals", json={"format": "slurm_jobcomp", "document": posts})
    assert response.status_code == 201, response.text
    assert {(e["quote_id"], e["job_id"]) for e in response.json()["items"]} == {(five["id"], "5"), (six["id"], "6")}
    unquoted = [entry["detail"] for entry in response.json()["ignored"] if "has no quote" in entry["detail"]]
    assert any(detail.startswith("job 9 ") and "external_ref slurm:quotetest/9" in detail for detail in unquoted)
    timed_out = row(client, five["id"], "device_hours.run")
    assert (timed_out["bound"], timed_out["ratio"]) == ("lower", None)


def test_job_that_names_its_quote(client: TestClient) -> None:
    """A comment `quote:ID` in the job is enough."""
    made = quote(client)
    document = {"jobid": 77, "state": "COMPLETED", "@start": "2026-01-01T00:00:00", "@end": "2026-01-01T01:00:00", "elapsed": 3600}
    document |= {"tres_alloc": "gres/gpu=64,gres/gpu:h100=64", "script": f"#!/bin/bash\n#SBATCH --comment=quote:{made['id']}\n"}
    response = client.post("/v1/actuals", json={"format": "slurm_jobcomp", "document": document})
    assert response.status_code == 201 and row(client, made["id"], "device_hours.run")["measured"] == 64
    refused = client.post("/v1/actuals", json={"format": "slurm_jobcomp", "document": {**document, "script": ""}})
    assert refused.status_code == 404 and "job 77 " in refused.json()["detail"]


def test_cancelled_while_pending(client: TestClient) -> None:
    """Acknowledged, with nothing recorded."""
    made = quote(client)
    post_7 = json.loads(json.loads((SLURM / "debian12_22.05_jobcomp_elasticsearch_POSTs.jsonl").read_text().splitlines()[2])["body"])
    answer = post(client, made["id"], {"format": "slurm_jobcomp", "document": post_7}, 200)
    assert answer["items"] == [] and "ended before it started" in answer["ignored"][0]["detail"]


def test_logs_and_their_gaps(client: TestClient) -> None:
    """What a log leaves open is the caller's to say; the quote's device count is used with a flag."""
    made = quote(client)
    log = "\n".join(titan_line(step, 40.0, "7,412") for step in (1, 10, 20))
    assumed = post(client, made["id"], {"format": "torchtitan_log", "document": log})["items"]
    rate = next(entry for entry in assumed if entry["code"].startswith("throughput"))
    assert rate["value"] == 7412 * 64 and "device_count_from_quote" in rate["flags"]
    lines = "\n".join(megatron_line(step, 100.0) for step in (10, 20, 30, 40, 50, 60))
    said = post(client, made["id"], {"format": "megatron_log", "document": lines, "steps_completed": 60, "device_count": 32})["items"]
    assert {"device_count_differs"} <= set(said[0]["flags"]) and said[0]["device_count"] == 32
    assert post(client, made["id"], {"format": "kubernetes_job", "document": JOB})["items"][0]["source"] == "kubernetes"


def test_unreadable_document(client: TestClient) -> None:
    """Refused with a pointer into the document, and what it was taken for."""
    made = quote(client)
    pointer_file = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n"
    answer = post(client, made["id"], {"format": "hf_trainer_state", "document": pointer_file}, 422)
    assert pointers(answer) == ["/document"] and "Git LFS" in answer["errors"][0]["detail"]
    assert pointers(post(client, made["id"], {"format": "sacct_json", "document": {"jobs": 5}}, 422)) == ["/document/jobs"]
    too_much = {"format": "torch_memory", "document": {"max_memory_allocated": 9e10}}
    answer = post(client, made["id"], too_much, 422)
    assert pointers(answer) == ["/document"] and "memory.peak_allocated" in answer["errors"][0]["detail"]


def test_what_text_may_hide(client: TestClient) -> None:
    """A document sent as text may hold what a body may not: names that cannot be stored are refused, not failed on."""
    made = quote(client)
    run = {"id": "x", "state": "finished", "summary": {"_runtime": 5.0, "train/global_step": 3}}
    for name in ("a\0b", "\ud800", "x" * 300):
        answer = post(client, made["id"], {"format": "wandb_summary", "document": json.dumps({**run, "id": name})}, 422)
        assert pointers(answer) == ["/document"]
    unnamed = client.post("/v1/actuals", json={"format": "hf_all_results", "document": {"train_runtime": 5.0}})
    assert (unnamed.status_code, pointers(unnamed.json())) == (422, ["/external_ref"])


def test_memory_alone_does_not_end_a_run(client: TestClient) -> None:
    """Statistics of the allocator say nothing about completion."""
    made = quote(client)
    post(client, made["id"], {"format": "torch_memory", "document": {"max_memory_allocated": 6e10}})
    assert client.get(f"/v1/quotes/{made['id']}").json()["status"] == "open"
    assert row(client, made["id"], "memory.peak_allocated")["measured"] == 6e10


# --- Order, keys, scopes --------------------------------------------------------------------------------------------


def strip(answer: dict[str, Any]) -> dict[str, Any]:
    """A comparison without ids, which differ from quote to quote."""
    return {**answer, "rows": [{key: value for key, value in entry.items() if key != "measurement_ids"} for entry in answer["rows"]]}


def test_any_order_gives_the_same(client: TestClient, engine: Engine) -> None:
    """Attempts and corrections in any order they can come in: one comparison, one standing observation a group."""
    attempts = [
        {**ATTEMPT, "attempt": 1, "outcome": "preempted", "steps_completed": 1000, "measurements": [{**HOURS, "value": 200}]},
        {**ATTEMPT, "attempt": 2, "outcome": "failed", "covers": None, "measurements": [{**HOURS, "value": 50}, {**PEAK, "value": 6.2e10}]},
        {**ATTEMPT, "attempt": 3, "measurements": [{**HOURS, "value": 700}, PEAK]},
        {**ATTEMPT, "attempt": 3, "source": "megatron", "measurements": [{"code": "time.step", "value": 11.0, "method": "median"}]},
    ]
    orders = list(itertools.permutations(attempts))
    results, observations = [], []
    for order in random.Random(5).sample(orders, 5):
        made = quote(client)
        for body in order:
            post(client, made["id"], body)
        results.append(strip(comparison(client, made["id"])))
        table = measurements.c
        with engine.connect() as connection:
            replaced = select(table.replaces_id).where(table.replaces_id.is_not(None))
            query = select(table.code, table.source, table.observed_value, table.log_ratio, table.censored, table.drift)
            query = query.where(table.quote_id == made["id"], table.observed_value.is_not(None), table.id.not_in(replaced))
            observations.append(sorted(map(tuple, connection.execute(query.order_by(table.code, table.source)).all())))
    assert all(result == results[0] for result in results)
    assert all(found == observations[0] for found in observations) and len(observations[0]) == 3


def test_scopes_and_teams(secured: TestClient, make_key: Any) -> None:
    """Writing needs `actuals:write`, reading `quotes:read`; another team's quote is not there."""
    writer, reader = make_key("search", "quotes:write", "actuals:write"), make_key("search", "quotes:read")
    stranger = make_key("ads", "admin")
    made = secured.post("/v1/quotes", json=SPEC, headers=writer).json()
    url = f"/v1/quotes/{made['id']}"
    assert secured.post(f"{url}/actuals", json=ATTEMPT).status_code == 401
    assert secured.post(f"{url}/actuals", json=ATTEMPT, headers=reader).status_code == 403
    assert secured.post("/v1/actuals", json=ATTEMPT, headers=reader).status_code == 403
    assert secured.post(f"{url}/actuals", json=ATTEMPT, headers=stranger).status_code == 404
    assert secured.post(f"{url}/actuals", json=ATTEMPT, headers=writer).status_code == 201
    assert secured.get(f"{url}/comparison", headers=writer).status_code == 403
    for path in ("comparison", "actuals"):
        assert secured.get(f"{url}/{path}", headers=reader).status_code == 200
        assert secured.get(f"{url}/{path}", headers=stranger).status_code == 404


# --- The seeds ------------------------------------------------------------------------------------------------------

SEEDS = {case["id"]: case for case in json.loads((CASES / "seed_figures.json").read_text())["cases"]}


def test_seed_llama31_8b(client: TestClient) -> None:
    """The model card's 1.46 million hours against the estimate at MFU 0.4: 2.9 times, an implied MFU of 0.14."""
    case = SEEDS["actuals.llama31_8b_model_card"]
    given, expect, tolerance = case["given"], case["expect"], case["rel_tol"]
    spec = {
        "model": {"preset": "llama-3.1-8b"},
        "data": {"total_tokens": 15_000_000_000_000},
        "sequence_length": 8192,
        "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 16},
        "hardware": {"device": given["device"], "device_count": 1024},
        "efficiency": {"mfu": given["estimated_at_mfu"]},
    }
    made = quote(client, **spec)
    assert item(made, "compute.6nd")["expected"] == pytest.approx(given["training_flops"], rel=0.001)
    measured = {**HOURS, "value": given["measured_device_hours"]}
    post(client, made["id"], {"outcome": "completed", "covers": ["training"], "source": "model card", "measurements": [measured]})
    training = row(client, made["id"], "device_hours.training")
    assert training["ratio"] == pytest.approx(expect["measured_over_estimated"], rel=tolerance) and training["derived"] is True
    implied = row(client, made["id"], "efficiency.mfu")
    assert implied["measured"] == pytest.approx(expect["implied_mfu"], rel=tolerance) and implied["derived"] is True
    # The run's own item has the reserve for interruptions in it, which the printed ratio has not.
    whole = row(client, made["id"], "device_hours.run")
    assert whole["measured"] / item(made, "device_hours.training")["expected"] == pytest.approx(
        expect["measured_over_estimated"], rel=tolerance
    )
    calm = quote(client, **spec, reserves={"interruptions_per_device_hour": 0, "rerun_fraction": 0})
    post(client, calm["id"], {"source": "model card", "measurements": [measured]})
    assert row(client, calm["id"], "device_hours.run")["ratio"] == pytest.approx(expect["measured_over_estimated"], rel=tolerance)


def test_seed_llama31_405b(client: TestClient) -> None:
    """30.84 million hours: an implied MFU of 0.35 where 0.41 was estimated."""
    case = SEEDS["actuals.llama31_405b"]
    given, expect, tolerance = case["given"], case["expect"], case["rel_tol"]
    spec = {
        "model": {"parameter_count": int(given["parameters"])},
        "data": {"total_tokens": int(given["tokens"])},
        "hardware": {"device": given["device"], "device_count": 16384},
        "efficiency": {"mfu": given["estimated_at_mfu"]},
    }
    response = client.post("/v1/quotes", json=spec)
    assert response.status_code == 201, response.text
    made = response.json()
    assert made["summary"]["training_flops"] == pytest.approx(expect["training_flops"], rel=tolerance)
    assert item(made, "device_hours.training")["expected"] == pytest.approx(expect["estimated_device_hours"], rel=tolerance)
    measured = {**HOURS, "value": given["measured_device_hours"]}
    post(client, made["id"], {"outcome": "completed", "source": "paper", "measurements": [measured]})
    assert row(client, made["id"], "efficiency.mfu")["measured"] == pytest.approx(expect["implied_mfu"], rel=tolerance)


def _accounting(jobs: int) -> str:
    rows = [f"{job}|a|COMPLETED|2026-01-05T08:00:00|2026-01-05T09:00:00|3600|gres/gpu=64" for job in range(1, jobs + 1)]
    return "\n".join(["JobID|Cluster|State|Start|End|ElapsedRaw|AllocTRES", *rows])


def test_a_month_of_a_cluster_is_asked_for_in_a_few_statements(client: TestClient, engine: Engine) -> None:
    """Jobs without a quote cost no statement each; those with one get their own hours."""
    made = {quote(client, external_ref={"system": "slurm", "id": f"a/{job}"})["id"] for job in (3, 140)}
    statements: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        answer = client.post("/v1/actuals", json={"format": "sacct_parsable", "document": _accounting(150)})
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert answer.status_code == 201, answer.text
    assert {row["quote_id"] for row in answer.json()["items"]} == made
    assert {row["job_id"] for row in answer.json()["items"]} == {"3", "140"}
    assert len(answer.json()["ignored"]) == 148
    assert len(statements) < 60
