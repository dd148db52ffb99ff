"""What is offered when a run does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from service.kit.merge_patch import patched as merged
from service.quotes.quoting import build
from service.specs.load import run_of

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 4096,
    "batch": {"micro_batch_size": 4},
    "software": {"stack": "fsdp_native"},
    "hardware": {"device": "a100-sxm-80gb", "device_count": 8},
}


def test_a_run_that_fits_has_no_alternatives() -> None:
    quote = build(merged(SPEC, {"activation_checkpointing": "full"}))
    assert quote["summary"]["fits"] is True
    assert quote["alternatives"] == []


def test_every_alternative_fits_when_it_is_quoted() -> None:
    quote = build(SPEC)
    assert quote["summary"]["fits"] is False
    assert quote["alternatives"]
    before = quote["summary"]["peak_memory_bytes_per_device"]["expected"]
    for row in quote["alternatives"]:
        after = build(merged(SPEC, row["change"]))
        assert after["summary"]["fits"] is True, row
        peak = after["summary"]["peak_memory_bytes_per_device"]["expected"]
        assert peak - before == row["peak_memory_bytes_per_device_delta"]
        hours = after["summary"]["device_hours"]["expected"] / quote["summary"]["device_hours"]["expected"]
        assert hours == pytest.approx(row["device_hours_ratio"], rel=1e-12)


def test_the_smallest_step_of_each_kind_and_the_same_global_batch() -> None:
    rows = build(SPEC)["alternatives"]
    changes = [row["change"] for row in rows]
    assert {"activation_checkpointing": "full"} in changes or {"activation_checkpointing": "selective"} in changes
    for change in changes:
        if "parallelism" in change or "batch" in change:
            assert run_of(merged(SPEC, change)).batch.global_batch_size == 32


def test_the_cheapest_comes_first_and_other_devices_last() -> None:
    rows = build(SPEC)["alternatives"]
    own = [row["device_hours_ratio"] for row in rows if "hardware" not in row["change"]]
    assert own == sorted(own)
    assert "hardware" not in rows[0]["change"]


def test_where_no_single_change_suffices_several_are_offered_together() -> None:
    stubborn = merged(SPEC, {"software": {"stack": "hf_transformers"}, "parallelism": {"sharding": "none"}})
    rows = build(stubborn)["alternatives"]
    assert any(len(row["change"]) > 1 for row in rows)
    for row in rows:
        assert build(merged(stubborn, row["change"]))["summary"]["fits"] is True


def test_nothing_is_offered_without_hardware_or_shape() -> None:
    assert build(merged(SPEC, {"hardware": None}))["alternatives"] == []
    assert build(merged(SPEC, {"model": {"preset": None, "parameter_count": 10**12}}))["alternatives"] == []


def test_merge_patches_follow_rfc_7396() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 4}, "d": None}) == {"a": {"c": 2, "e": 4}}
