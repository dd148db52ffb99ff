"""Specs that say little: their defaults may not lead to absurd figures without a word."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from .conftest import Preview

H100 = "h100-sxm-80gb"


@pytest.mark.parametrize("model", [{"preset": "llama-3.1-405b"}, {"parameter_count": 405e9}])
def test_a_model_larger_than_a_node_is_saved_from_many(preview: Preview, model: dict[str, Any]) -> None:
    """Llama 3 405B took 30.84 million H100-hours; its job must not be quoted at ten times that for want of a layout."""
    quote = preview(
        model=model,
        data={"total_tokens": 15.6e12},
        hardware={"device": H100, "device_count": 16384},
        efficiency={"mfu": 0.41},
    )
    assert quote["by"]["device_hours.run"]["expected"] < 1.6 * quote["by"]["device_hours.training"]["expected"]
    assert "does_not_fit" in [warning["code"] for warning in quote["warnings"]]


def test_named_targets_are_the_targets(preview: Preview) -> None:
    """Prompt and target lengths without an objective: the targets are those that were named."""
    data = {"samples": 2, "prompt_tokens": 800, "target_tokens": 200, "packing": "pad_to_max"}
    for method in ({}, {"method": {"objective": "pretrain"}}, {"method": {"objective": "sft"}}):
        quote = preview(model={"preset": "gpt2"}, data=data, sequence_length=1024, **method)
        assert quote["by"]["tokens.target"]["expected"] == 400
    documents = {"samples": 2, "prompt_tokens": 1000, "target_tokens": 0}
    assert preview(model={"preset": "gpt2"}, data=documents, sequence_length=1024)["by"]["tokens.target"]["expected"] == 2000


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"samples": 1, "prompt_tokens": 0, "target_tokens": 200}, "/data/prompt_tokens"),
        ({"lengths": {"histogram": [[100, 20, 5], [0, 20, 5]]}}, "/data/lengths/histogram"),
    ],
)
def test_an_encoder_needs_something_to_read(client: TestClient, data: dict[str, Any], pointer: str) -> None:
    """Tokens are the encoder's: a run of none would take no time."""
    spec = {"model": {"preset": "t5-base"}, "data": data, "hardware": {"device": H100, "device_count": 2}}
    response = client.post("/v1/quotes/preview", json=spec)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(("devices", "fits"), [(8, False), (512, None)])
def test_states_that_alone_are_more_than_the_device_has_do_not_fit_whatever_the_rest_is(
    preview: Preview, devices: int, fits: bool | None
) -> None:
    """70 G parameters of 16 bytes over 8 devices of 80 GB are 130 GiB each without any activation; over 512, no length, no answer."""
    hardware = {"device": "a100-sxm-80gb", "device_count": devices}
    quote = preview(model={"parameter_count": 70e9}, data={"total_tokens": 1e9}, hardware=hardware, parallelism={"sharding": "zero3"})
    assert quote["summary"]["fits"] is fits
    assert ("does_not_fit" in [warning["code"] for warning in quote["warnings"]]) is (fits is False)
    assert quote["alternatives"] == []
