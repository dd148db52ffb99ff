"""Scaling over HTTP: the seeds' figures from inputs alone, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

# No endpoint here touches the database; one engine is enough.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

SEEDS = {case["id"]: case for case in json.loads((Path(__file__).parent.parent / "cases" / "seed_figures.json").read_text())["cases"]}
OPTIMUM = "/v1/scaling/compute-optimal"
SPEEDUP = "/v1/scaling/speedup"


def ask(client: TestClient, **body: Any) -> dict[str, Any]:
    """The answer to a good request."""
    response = client.post(OPTIMUM, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def close(case: dict[str, Any], name: str) -> Any:
    """The printed figure with the rounding it was printed with."""
    return pytest.approx(case["expect"][name], rel=case["rel_tol"] or 1e-12)


def test_chinchilla_rule(client: TestClient) -> None:
    """The 8B's budget would train 77B on 1.5T."""
    case = SEEDS["scaling.chinchilla_rule"]
    answer = ask(client, law="chinchilla_20", training_flops=case["given"]["training_flops"])
    assert answer["parameters"] == close(case, "parameters")
    assert answer["tokens"] == close(case, "tokens")
    assert answer["tokens_per_parameter"] == pytest.approx(case["given"]["tokens_per_parameter"])


def test_chinchilla_table(client: TestClient) -> None:
    """1B wants 20.2B tokens, 10B 205.1B."""
    case = SEEDS["scaling.chinchilla_table"]
    for parameters, tokens in zip(case["given"]["parameters"], case["expect"]["tokens"], strict=True):
        assert ask(client, law="chinchilla_table", parameters=parameters)["tokens"] == pytest.approx(tokens, rel=case["rel_tol"])


def test_kaplan_exponents(client: TestClient) -> None:
    """0.73 and 0.27."""
    case = SEEDS["scaling.kaplan_exponents"]
    exponents = ask(client, law="kaplan", training_flops=1e21)["exponents"]
    assert exponents == {"parameters": case["expect"]["parameters_exponent"], "tokens": case["expect"]["tokens_exponent"]}


def test_llama3_fit(client: TestClient) -> None:
    """402B on 16.55T at 3.8e25."""
    case = SEEDS["scaling.llama3_fit"]
    answer = ask(client, law="llama3", training_flops=case["given"]["training_flops"])
    assert answer["parameters"] == close(case, "parameters")
    assert answer["tokens"] == close(case, "tokens")
    assert answer["predicted_loss"] is None


@pytest.mark.parametrize("case", ["scaling.tokens_per_parameter", "scaling.historic_ratios"])
def test_tokens_per_parameter(client: TestClient, case: str) -> None:
    """Published models held against the rule."""
    seed = SEEDS[case]
    for one, ratio in zip(seed["given"]["runs"], seed["expect"]["ratio"], strict=True):
        planned = {"parameters": one["parameters"], "tokens": one["tokens"]}
        answer = ask(client, law="chinchilla_20", parameters=one["parameters"], planned=planned)
        assert answer["planned"]["tokens_per_parameter"] == pytest.approx(ratio, rel=seed["rel_tol"])


def test_over_training_factor(client: TestClient) -> None:
    """93 times the optimum's tokens; it pays from 12 trillion tokens of inference on."""
    case = SEEDS["scaling.overtraining_factor"]
    planned = {"parameters": case["given"]["parameters"], "tokens": case["given"]["tokens"]}
    answer = ask(client, law="chinchilla_20", training_flops=1e23, planned=planned)
    assert answer["planned"]["over_training_ratio"] == close(case, "factor")
    assert 1e12 < answer["planned"]["break_even_inference_tokens"] < 1e14


def test_inference_cost(client: TestClient) -> None:
    """2N a token: 77B costs 9.6 times 8B."""
    case = SEEDS["inference.flops_per_token"]
    costs = [ask(client, law="chinchilla_20", parameters=n)["inference_flops"] for n in case["given"]["parameters"]]
    assert costs[0] == 2 * case["given"]["parameters"][0]
    assert costs[1] / costs[0] == close(case, "cost_ratio")


def test_speedup(client: TestClient) -> None:
    """Training twice as fast: 65 minutes of 100."""
    case = SEEDS["time.end_to_end_speedup"]
    stages = {name: minutes * 60 for name, minutes in case["given"]["stage_minutes"].items()}
    answer = client.post(SPEEDUP, json={"stage_seconds": stages, "speedups": case["given"]["speedup"]}).json()
    assert answer["before_seconds"] == case["expect"]["total_minutes_before"] * 60
    assert answer["after_seconds"] == case["expect"]["total_minutes_after"] * 60
    assert answer["speedup"] == close(case, "overall_speedup")


def test_a_life_is_training_and_inference(client: TestClient) -> None:
    """6ND once and 2N a token; a smaller model costs less over a long life."""
    answer = ask(client, law="chinchilla_20", training_flops=7.227e23, inference_tokens=1e13)
    assert answer["lifetime_flops"] == pytest.approx(7.227e23 + 2 * answer["parameters"] * 1e13)
    cheapest = answer["cheapest_over_life"]
    assert cheapest["lifetime_flops"] < answer["lifetime_flops"] and cheapest["parameters"] < answer["parameters"]
    assert answer["smaller_models"][0]["parameters"] == pytest.approx(answer["parameters"] / 2)
    assert ask(client, law="chinchilla_20", training_flops=1e21)["lifetime_flops"] is None


def test_the_answer_says_where_the_law_holds(client: TestClient) -> None:
    """Its range, a warning outside it, its source, and what no law promises."""
    answer = ask(client, law="chinchilla_2", training_flops=1e25)
    assert answer["fitted_range"]["training_flops"] == [6e18, 3e21]
    assert {warning["code"] for warning in answer["warnings"]} == {"outside_fitted_range"}
    assert "2203.15556" in answer["source"]
    assert "no task's score" in answer["not_promised"] and "emergence" in answer["not_promised"]
    assert ask(client, law="chinchilla_2", training_flops=1e21)["warnings"] == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"law": "chinchilla_20"}, ""),
        ({"law": "chinchilla_20", "training_flops": 1e21, "tokens": 1e9}, ""),
        ({"law": "chinchila_20", "training_flops": 1e21}, "/law"),
        ({"law": "kaplan", "training_flops": 0}, "/training_flops"),
        ({"law": "kaplan", "training_flops": "1e21"}, "/training_flops"),
        ({"law": "kaplan", "flops": 1e21}, "/flops"),
        ({"law": "kaplan", "tokens": 1e9, "planned": {"parameters": 1e9}}, "/planned/tokens"),
    ],
)
def test_bad_requests_are_told_where(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    """422 with a pointer; an unknown field with the nearest known one."""
    response = client.post(OPTIMUM, json=body)
    assert response.status_code == 422
    assert response.headers["content-type"].startswith("application/problem+json")
    assert pointer in [error["pointer"] for error in response.json()["errors"]]


def test_unknown_field_gets_a_suggestion(client: TestClient) -> None:
    """The nearest known name."""
    response = client.post(OPTIMUM, json={"law": "kaplan", "training_flop": 1e21})
    assert any("training_flops" in error["detail"] for error in response.json()["errors"])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"stage_seconds": {"training": 1}, "speedups": {"trainin": 2}}, "/speedups/trainin"),
        ({"stage_seconds": {}, "speedups": {}}, "/stage_seconds"),
        ({"stage_seconds": {"training": -1}, "speedups": {}}, "/stage_seconds/training"),
        ({"stage_seconds": {"training": 1}, "speedups": {"training": 0}}, "/speedups/training"),
        ({"stage_seconds": {"training": 1}}, "/speedups"),
    ],
)
def test_bad_speedups_are_told_where(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    """A stage that does not exist is not silently left alone."""
    response = client.post(SPEEDUP, json=body)
    assert response.status_code == 422
    assert pointer in [error["pointer"] for error in response.json()["errors"]]


def test_no_time_has_no_speedup(client: TestClient) -> None:
    """Nothing divided by nothing is null, not an error."""
    answer = client.post(SPEEDUP, json={"stage_seconds": {"a": 0}, "speedups": {"a": 2}}).json()
    assert answer["speedup"] is None


@pytest.mark.parametrize("law", ["chinchilla_20", "chinchilla_table", "chinchilla_1", "chinchilla_2", "chinchilla_3", "kaplan", "llama3"])
@pytest.mark.parametrize(
    "given", [{"training_flops": 1}, {"training_flops": 1e40}, {"parameters": 1}, {"parameters": 1e18}, {"tokens": 1}, {"tokens": 1e20}]
)
def test_extremes_answer(client: TestClient, law: str, given: dict[str, float]) -> None:
    """Far outside every range: a warning, no failure."""
    planned = {"parameters": 1, "tokens": 1e20}
    answer = ask(client, law=law, inference_tokens=1e20, planned=planned, **given)
    assert answer["warnings"]


def test_published_mfu_figures(client: TestClient) -> None:
    """The seeds' evidence, each with its convention."""
    expected = SEEDS["evidence.published_mfu"]["expect"]
    items = {item["name"]: item for item in client.get("/v1/published-mfu").json()["items"]}
    for name in ("gpt3_v100", "gopher", "palm_540b_tpu_v4"):
        assert items[name]["mfu"] == expected[name]
    llama = sorted(item["mfu"] for name, item in items.items() if name.startswith("llama3_405b_h100"))
    assert [llama[0], llama[-1]] == expected["llama3_405b_h100"]
    assert all(item["convention"] and item["source"] and item["date"] for item in items.values())
