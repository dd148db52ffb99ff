"""Every figure that the seeds print about one run comes out of the HTTP API, from inputs alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from .conftest import Preview

CASES = {case["id"]: case for case in json.loads((Path(__file__).parent.parent / "cases" / "seed_figures.json").read_text())["cases"]}
LLAMA = {"preset": "llama-3.1-8b"}
H100 = {"device": "h100-sxm-80gb"}
LORA = {"kind": "lora", "lora": {"rank": 16, "alpha": 16, "target_modules": "all-linear"}}
# Answered elsewhere: laws and speed-ups (tests/scaling); what was measured and a project's ledger (tests/actuals, tests/projects).
ELSEWHERE = ("scaling.", "inference.", "time.end_to_end_speedup", "evidence.published_mfu", "actuals.", "ledger.")


def near(case: str, figure: str, index: int | None = None) -> Any:
    """The printed figure with the rounding it was printed with."""
    expected = CASES[case]["expect"][figure]
    return pytest.approx(expected if index is None else expected[index], rel=CASES[case]["rel_tol"] or 1e-12)


def value(document: dict[str, Any], code: str) -> Any:
    """Expected value of an item."""
    return document["by"][code]["expected"]


def counted(case: str) -> dict[str, Any]:
    """A model and data of a case that gives parameters and tokens."""
    given = CASES[case]["given"]
    return {"model": {"parameter_count": given["parameters"]}, "data": {"total_tokens": given["tokens"]}}


def test_padded_batch(preview: Preview) -> None:
    case = "tokens.padded_batch"
    given = CASES[case]["given"]
    document = preview(
        model=LLAMA,
        method={"objective": "sft"},
        data={
            "prompt_tokens": [sample["prompt_tokens"] for sample in given["samples"]],
            "target_tokens": [sample["target_tokens"] for sample in given["samples"]],
            "packing": "pad_to_max",
        },
        sequence_length=given["pad_to"],
        batch={"micro_batch_size": 2},
        hardware=H100,
        efficiency={"step_seconds": given["elapsed_seconds"]},
    )
    expect = CASES[case]["expect"]
    assert value(document, "tokens.input") == expect["input_tokens"]
    assert value(document, "tokens.target") == expect["target_tokens"]
    assert value(document, "tokens.padding") == expect["padding_positions"]
    assert value(document, "tokens.tensor_positions") == expect["tensor_positions"]
    for rate in ("input_tokens", "target_tokens", "tensor_positions"):
        assert value(document, f"throughput.{rate}_per_second") == expect[f"{rate}_per_second"]


@pytest.mark.parametrize("case", ["compute.6nd.100m", "compute.6nd.7b_1t", "compute.6nd.llama31_8b"])
def test_6nd(preview: Preview, case: str) -> None:
    document = preview(**counted(case))
    assert value(document, "compute.6nd") == near(case, "training_flops")
    assert document["summary"]["training_flops"] == near(case, "training_flops")


def test_length_squares(preview: Preview) -> None:
    case = "attention.length_squares"
    squares = []
    for lengths in CASES[case]["given"]["length_sets"]:
        document = preview(model=LLAMA, data={"prompt_tokens": lengths, "target_tokens": 0, "packing": "packed"}, sequence_length=2048)
        squares.append(value(document, "tokens.squared_lengths"))
    assert squares == CASES[case]["expect"]["sum_of_squares"]
    assert squares[1] / squares[0] == CASES[case]["expect"]["ratio"]


def test_ledger_of_16_bytes(preview: Preview) -> None:
    case = "memory.ledger_16_bytes"
    given = CASES[case]["given"]
    each = given["bytes_per_parameter"]
    document = preview(
        model={"parameter_count": given["parameters"]},
        data={"total_tokens": 1_000_000},
        precision={
            "weight_bytes": each["weights"],
            "gradient_bytes": each["gradients"],
            "master_weight_bytes": each["master_weights"],
            "optimizer_state_bytes": each["optimizer_moment_1"] + each["optimizer_moment_2"],
        },
        hardware=H100,
    )
    states = value(document, "memory.model_states")
    assert states == near(case, "model_state_bytes")
    assert states / given["parameters"] == near(case, "bytes_per_parameter")
    assert states / 2**30 == near(case, "model_state_gib")
    parts = ("weights", "gradients", "master_weights", "optimizer_states")
    assert sum(value(document, f"memory.{part}") for part in parts) == states


def test_mfu_effect(preview: Preview) -> None:
    case = "time.mfu_effect"
    times = [
        value(preview(**counted("compute.6nd.7b_1t"), hardware=H100, efficiency={"mfu": mfu}), "time.training")
        for mfu in CASES[case]["given"]["mfu"]
    ]
    assert times[0] / times[1] == near(case, "wall_clock_ratio")


def test_one_h100_at_peak(preview: Preview) -> None:
    case = "time.one_h100_at_peak"
    document = preview(**counted("compute.6nd.llama31_8b"), hardware=H100, efficiency={"mfu": 1.0})
    assert value(document, "compute.6nd") == pytest.approx(CASES[case]["given"]["training_flops"])
    assert value(document, "time.training") == near(case, "seconds")
    assert value(document, "time.training") / (365.25 * 86400) == near(case, "years")
    assert "peak_taken_as_real" in [warning["code"] for warning in document["warnings"]]


def test_llama_at_mfu_40(preview: Preview) -> None:
    case = "time.llama31_8b_mfu40"
    hardware = {**H100, "device_count": CASES[case]["given"]["devices"]}
    data = {"total_tokens": 15e12}
    document = preview(model=LLAMA, data=data, sequence_length=8192, hardware=hardware, efficiency={"mfu": 0.4})
    assert value(document, "device_hours.training") == near(case, "device_hours")
    assert document["summary"]["device_hours"]["expected"] == near(case, "device_hours")
    assert value(document, "time.training") / 3600 == near(case, "hours")


def test_attention_share(preview: Preview) -> None:
    case = "compute.attention_share_causal"
    given = CASES[case]["given"]
    for index, context in enumerate(given["contexts"]):
        document = preview(model=LLAMA, data={"total_tokens": context * 16}, sequence_length=context)
        forward = value(document, "compute.attention") / 3 / value(document, "tokens.input")  # backward is twice the forward
        assert forward / (2 * given["parameters"]) == near(case, "share_of_2N", index)
        if context == 8192:
            assert forward == near(case, "extra_forward_flops_per_token_at_8192")


def test_embedding_overcount(preview: Preview) -> None:
    case = "compute.embedding_overcount"
    parameters = preview(model=LLAMA, data={"total_tokens": 1e6})["resolved"]["parameters"]
    assert parameters["embedding"] == CASES[case]["expect"]["input_embedding_parameters"]
    assert parameters["embedding"] / parameters["total"] == near(case, "share_of_parameters")


def test_h100_dense_and_sparse(client: TestClient) -> None:
    case = "devices.h100_dense_vs_sparse"
    devices = {device["name"]: device for device in client.get("/v1/devices").json()["items"]}
    h100 = devices[CASES[case]["given"]["device"]]
    assert h100["peak_bf16_dense_flops_per_second"] == near(case, "peak_bf16_dense_flops")
    assert h100["peak_bf16_sparse_flops_per_second"] == near(case, "peak_bf16_sparse_flops")


def test_lora_parameters(preview: Preview) -> None:
    case = "lora.parameters"
    parameters = preview(model=LLAMA, method=LORA, data={"total_tokens": 1e6})["resolved"]["parameters"]
    assert parameters["trainable"] == parameters["adapters"] == CASES[case]["expect"]["trainable_parameters"]
    assert parameters["trainable"] / parameters["total"] == near(case, "share")


@pytest.mark.parametrize("model", [LLAMA, {"parameter_count": 8.03e9}], ids=["preset", "count"])
@pytest.mark.parametrize("sequence_length", [None, 1024])
def test_lora_flops_and_time(preview: Preview, model: dict[str, Any], sequence_length: int | None) -> None:
    case = "lora.flops_and_time"
    given = CASES[case]["given"]
    data = {"samples": given["samples"], "prompt_tokens": given["tokens_per_sample"] - 200, "target_tokens": 200}
    common: dict[str, Any] = {"model": model, "method": LORA, "data": data, "hardware": H100, "sequence_length": sequence_length}
    at_40 = preview(**common, efficiency={"mfu": 0.4})
    assert value(at_40, "tokens.input") == near(case, "tokens")
    assert value(at_40, "compute.6nd") == near(case, "flops_4n")
    assert value(at_40, "time.training") == near(case, "seconds_at_mfu40")
    at_20 = preview(**common, efficiency={"mfu": 0.2})
    assert value(at_20, "time.training") / 60 == near(case, "minutes_at_mfu20")
    recomputed = preview(**common, efficiency={"hfu": 0.2}, activation_checkpointing="full")
    assert value(recomputed, "time.training") / 60 == near(case, "minutes_at_mfu20_full_recompute")
    executed = value(recomputed, "time.training") * 0.2 * 989.4e12
    assert executed == near(case, "flops_6n_full_recompute")


def test_lora_three_epochs(preview: Preview) -> None:
    case = "lora.three_epochs"
    given = CASES[case]["given"]
    data = {"samples": given["samples"], "prompt_tokens": given["tokens_per_sample"], "target_tokens": 0, "epochs": given["epochs"]}
    common: dict[str, Any] = {"model": LLAMA, "method": LORA, "data": data, "hardware": H100, "sequence_length": 1024}
    plain = preview(**common, efficiency={"mfu": given["mfu"]})
    recomputed = preview(**common, efficiency={"hfu": given["mfu"]}, activation_checkpointing="full")
    for index, document in enumerate((plain, recomputed)):
        assert value(document, "time.training") / 3600 == near(case, "hours", index)


def test_full_fine_tune(preview: Preview) -> None:
    case = "full_sft.flops"
    given = CASES[case]["given"]
    document = preview(**counted(case), method={"objective": "sft"}, hardware=H100, efficiency={"mfu": given["mfu"]})
    assert value(document, "compute.6nd") == near(case, "flops")
    assert value(document, "device_hours.training") * 60 == near(case, "device_minutes")


def test_pretraining_at_mfu_20(preview: Preview) -> None:
    case = "pretrain.15t_mfu20"
    document = preview(**counted(case), hardware={**H100, "device_count": 512}, efficiency={"mfu": CASES[case]["given"]["mfu"]})
    assert value(document, "device_hours.training") == near(case, "device_hours")


def test_model_states_of_8b(preview: Preview) -> None:
    case = "memory.model_states_8b"
    document = preview(
        model=LLAMA,
        data={"total_tokens": 1e6},
        sequence_length=1024,
        hardware=H100,
        precision={"weight_bytes": 2, "gradient_bytes": 2, "master_weight_bytes": 4, "optimizer_state_bytes": 8},
    )
    assert value(document, "memory.model_states") / 1e9 == near(case, "gigabytes")
    assert document["summary"]["fits"] is False


def test_lora_is_two_thirds(preview: Preview) -> None:
    case = "lora.two_thirds"
    model = {"parameter_count": CASES[case]["given"]["parameters"]}
    full, lora = (preview(model=model, data={"total_tokens": 1e7}, method=method) for method in ({"kind": "full"}, LORA))
    assert value(lora, "compute.6nd") / value(full, "compute.6nd") == near(case, "ratio_4n_to_6n")


def test_no_case_is_forgotten() -> None:
    text = Path(__file__).read_text()
    forgotten = [case for case in CASES if not case.startswith(ELSEWHERE) and f'"{case}"' not in text]
    assert not forgotten
