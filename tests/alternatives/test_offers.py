"""Alternatives as a practitioner would name them: each fits when it is quoted, none has a part without need, the batch is kept."""

from __future__ import annotations

from typing import Any

import pytest

from service.kit.merge_patch import patched as merged
from service.quotes.quoting import build
from service.specs.load import run_of

DATA = {"total_tokens": 10**9}
H100 = {"device": "h100-sxm-80gb", "device_count": 8}
SCENES: dict[str, dict[str, Any]] = {
    "70b full on one node": {
        "model": {"preset": "llama-3.1-70b"},
        "data": DATA,
        "sequence_length": 4096,
        "batch": {"gradient_accumulation_steps": 8},
        "activation_checkpointing": "full",
        "software": {"stack": "fsdp_native"},
        "hardware": H100,
    },
    "7b full on a desktop card": {
        "model": {"preset": "llama-2-7b"},
        "data": DATA,
        "sequence_length": 2048,
        "batch": {"micro_batch_size": 4},
        "hardware": {"device": "rtx-4090-24gb"},
    },
    "128k tokens": {
        "model": {"preset": "llama-3.1-8b"},
        "data": DATA,
        "sequence_length": 131072,
        "batch": {"global_batch_size": 16},
        "parallelism": {"sharding": "zero3"},
        "hardware": H100,
    },
    "mixture": {
        "model": {"preset": "mixtral-8x7b"},
        "data": DATA,
        "sequence_length": 4096,
        "batch": {"global_batch_size": 64},
        "parallelism": {"sharding": "zero1"},
        "software": {"stack": "megatron"},
        "hardware": {**H100, "device_count": 32},
    },
    "dpo": {
        "model": {"preset": "llama-3.1-8b"},
        "method": {"objective": "dpo"},
        "data": {"samples": 10000, "prompt_tokens": 500, "target_tokens": 7500},
        "sequence_length": 8192,
        "batch": {"micro_batch_size": 4},
        "parallelism": {"sharding": "zero3"},
        "hardware": {"device": "a100-sxm-40gb", "device_count": 8},
    },
    "adapters": {
        "model": {"preset": "llama-3.1-70b"},
        "method": {"kind": "lora", "lora": {"rank": 64}},
        "data": DATA,
        "sequence_length": 4096,
        "activation_checkpointing": "full",
        "hardware": {**H100, "device_count": 1},
    },
    "pipeline": {
        "model": {"preset": "llama-3.1-70b"},
        "data": DATA,
        "sequence_length": 8192,
        "batch": {"micro_batch_size": 1, "global_batch_size": 512},
        "parallelism": {"tensor": 4, "pipeline": 4, "sequence_parallel": True, "sharding": "zero1"},
        "software": {"stack": "megatron"},
        "hardware": {**H100, "device_count": 64},
    },
    "encoder and decoder": {
        "model": {"preset": "t5-base"},
        "data": DATA,
        "sequence_length": 4096,
        "batch": {"micro_batch_size": 16},
        "hardware": {"device": "a100-sxm-80gb", "device_count": 1},
    },
    "adapters in 32 bits": {
        "model": {"preset": "llama-2-7b"},
        "method": {"kind": "lora", "lora": {"dropout": 0.05}},
        "precision": {"recipe": "bf16_pure"},
        "data": DATA,
        "sequence_length": 4096,
        "batch": {"micro_batch_size": 2},
        "hardware": {"device": "a100-sxm-80gb", "device_count": 1},
    },
    "odd micro-batch and scores": {
        "model": {"preset": "llama-3.1-8b"},
        "attention": "eager",
        "data": DATA,
        "sequence_length": 4096,
        "batch": {"micro_batch_size": 3, "gradient_accumulation_steps": 2},
        "parallelism": {"sharding": "zero3"},
        "hardware": H100,
    },
}


def offers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = build(spec)["alternatives"]
    return rows


def fits(spec: dict[str, Any]) -> Any:
    return build(spec)["summary"]["fits"]


@pytest.mark.parametrize("name", SCENES)
def test_every_offer_fits_keeps_the_batch_and_says_its_own_figures(name: str) -> None:
    spec = SCENES[name]
    quote = build(spec)
    assert quote["summary"]["fits"] is not True
    rows = quote["alternatives"]
    assert len(rows) >= 3
    assert len({repr(row["change"]) for row in rows}) == len(rows)
    for row in rows:
        after = build(merged(spec, row["change"]))
        summary = after["summary"]
        assert summary["fits"] is True
        assert summary["peak_memory_bytes_per_device"]["expected"] == row["peak_memory_bytes_per_device"]
        assert after["resolved"]["global_batch_size"] == quote["resolved"]["global_batch_size"]
        ratio = summary["device_hours"]["expected"] / quote["summary"]["device_hours"]["expected"]
        assert ratio == pytest.approx(row["device_hours_ratio"], rel=1e-12)
        seconds = [
            one["summary"]["wall_clock_seconds"] and next(i for i in one["items"] if i["code"] == "time.training") for one in (quote, after)
        ]
        assert row["throughput_ratio"] == pytest.approx(seconds[0]["expected"] / seconds[1]["expected"], rel=1e-9)
        offloaded = [item["expected"] for item in after["items"] if item["code"] == "host_memory.offload"]
        assert [row["host_memory_bytes_per_device"]] == offloaded if offloaded else "host_memory_bytes_per_device" not in row


@pytest.mark.parametrize("name", SCENES)
def test_an_offer_holds_for_the_spec_as_it_is_answered_too(name: str) -> None:
    """With every default filled in: what follows from a default is taken out or changed with it."""
    quote = build(SCENES[name])
    for row in quote["alternatives"]:
        after = build(merged(quote["spec"], row["change"]))
        assert after["summary"]["peak_memory_bytes_per_device"]["expected"] == row["peak_memory_bytes_per_device"], row["change"]


def parts(change: dict[str, Any]) -> list[str]:
    """Parts of a change that can be left out by themselves: accumulation goes with what it makes up for."""
    together = {"batch", "hardware", "method", "precision", "post_training", "decoder_sequence_length"}
    return [name for name in change if name not in together] + [name for name in ("method", "post_training") if name in change]


@pytest.mark.parametrize("name", SCENES)
def test_no_part_of_a_combination_is_without_need(name: str) -> None:
    spec = SCENES[name]
    for row in offers(spec):
        change = row["change"]
        if "hardware" in change or len(parts(change)) < 2:
            continue
        for part in parts(change):
            less = {key: value for key, value in change.items() if key != part}
            if part == "parallelism":
                less.pop("batch", None)
            if part == "method":
                less.pop("precision", None)
            assert fits(merged(spec, less)) is not True, (change, part)


def kinds_offered(name: str) -> set[str]:
    """What the offers of a scene touch."""
    found: set[str] = set()
    for row in offers(SCENES[name]):
        for part, value in row["change"].items():
            found |= {f"{part}.{key}" for key in value} if isinstance(value, dict) else {part}
    return found


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("70b full on one node", {"method.kind", "software.cpu_offload", "hardware.device_count", "hardware.device"}),
        ("7b full on a desktop card", {"method.kind", "activation_checkpointing", "hardware.device"}),
        ("128k tokens", {"parallelism.context", "software.fused_loss", "activation_checkpointing", "sequence_length", "hardware.device"}),
        ("mixture", {"parallelism.expert", "activation_checkpointing"}),
        ("dpo", {"software.fused_loss", "batch.micro_batch_size", "batch.gradient_accumulation_steps", "activation_checkpointing"}),
        ("adapters", {"method.kind", "method.quantization", "hardware.device_count", "hardware.device"}),
        ("pipeline", {"parallelism.tensor", "parallelism.context", "activation_checkpointing", "sequence_length"}),
        ("odd micro-batch and scores", {"attention", "batch.micro_batch_size"}),
    ],
)
def test_what_a_practitioner_would_name_is_there(name: str, wanted: set[str]) -> None:
    assert wanted <= kinds_offered(name)


def test_the_smallest_step_of_a_kind_is_taken() -> None:
    """The largest divisor of the micro-batch that fits, not the smallest; the next larger one does not."""
    base = SCENES["odd micro-batch and scores"]
    spec = merged(base, {"batch": {"micro_batch_size": 12}, "attention": "flash", "activation_checkpointing": "full"})
    row = next(row for row in offers(spec) if list(row["change"]) == ["batch"])
    size = row["change"]["batch"]["micro_batch_size"]
    assert row["change"]["batch"]["gradient_accumulation_steps"] * size == 24
    larger = min(k for k in (1, 2, 3, 4, 6, 12) if k > size)
    assert fits(merged(spec, {"batch": {"micro_batch_size": larger, "gradient_accumulation_steps": 24 // larger}})) is not True


def test_an_uneven_global_batch_still_has_smaller_micro_batches() -> None:
    spec = merged(SCENES["odd micro-batch and scores"], {"batch": None, "attention": "flash", "activation_checkpointing": "full"})
    spec = merged(spec, {"batch": {"micro_batch_size": 16, "global_batch_size": 200}})
    assert fits(spec) is not True
    changes = [row["change"] for row in offers(spec)]
    assert any("micro_batch_size" in change.get("batch", {}) for change in changes)


def test_a_second_quantization_is_offered_where_the_first_does_not_do() -> None:
    """70 billion weights: 0.5625 or 0.5159 bytes each (bitsandbytes: 4 bits, and 4 bytes or 0.127 bits' worth for every 64)."""
    base = merged(SCENES["adapters"], {"method": {"kind": "qlora", "lora": {"rank": 8}}, "sequence_length": 512})
    peak = build(base)["summary"]["peak_memory_bytes_per_device"]
    saved = 0.046630859375 * 68.4e9
    memory = round(peak["high"] - saved * 0.5)
    spec = merged(base, {"hardware": {"device_override": {"memory_bytes": memory}}})
    assert {"method": {"quantization": {"double_quantization": True}}, "precision": {"weight_bytes": None}} in [
        row["change"] for row in offers(spec)
    ]


def test_a_cached_reference_is_offered_where_its_weights_are_what_is_missing() -> None:
    """The reference's 16-bit weights over 8 ranks are 2 GB."""
    lean = {"software": {"fused_loss": True}, "batch": {"micro_batch_size": 1}, "activation_checkpointing": "full"}
    base = merged(SCENES["dpo"], {**lean, "sequence_length": 1024})
    memory = round(build(base)["summary"]["peak_memory_bytes_per_device"]["high"] - 1e9)
    spec = merged(base, {"hardware": {"device_override": {"memory_bytes": memory}}})
    assert {"post_training": {"reference": "cached"}} in [row["change"] for row in offers(spec)]


def test_where_nothing_helps_the_reason_is_given() -> None:
    quote = build({"model": {"preset": "deepseek-v3"}, "data": DATA, "sequence_length": 4096, "hardware": {"device": "v100-sxm-16gb"}})
    assert quote["alternatives"] == []
    warning = next(w for w in quote["warnings"] if w["code"] == "no_alternative")
    assert "lowest peak" in warning["detail"]


def test_another_device_and_more_devices_are_not_mixed_up() -> None:
    """Hours of the same device are compared with one's own; hours of another one come after and say so."""
    rows = offers(SCENES["70b full on one node"])
    other = ["device" in row["change"].get("hardware", {}) for row in rows]
    assert other == sorted(other)
    assert any("device_count" in row["change"].get("hardware", {}) for row in rows)
    assert all(("unlike devices" in row.get("note", "")) == flag for row, flag in zip(rows, other, strict=True))


def test_only_what_the_stacks_trainers_offer_is_proposed() -> None:
    spec = merged(SCENES["128k tokens"], {"software": {"stack": "llm_foundry"}})
    for row in offers(spec):
        assert not {"tensor", "pipeline", "context", "expert"} & set(row["change"].get("parallelism", {}))


def test_an_offered_layout_is_one_that_can_run() -> None:
    for name, spec in SCENES.items():
        for row in offers(spec):
            run = run_of(merged(spec, row["change"]))
            heads = run.architecture.layers[0].attention.query_heads
            assert heads % int(run.layout.tensor) == 0, name
            assert int(run.layout.tensor) <= 8


def test_an_absurd_micro_batch_is_answered_at_once() -> None:
    """Its divisors are not counted up to."""
    spec = merged(SCENES["dpo"], {"batch": {"micro_batch_size": 10**17}})
    assert {key: value for row in offers(spec) for key, value in row["change"].get("batch", {}).items() if key == "micro_batch_size"} == {
        "micro_batch_size": 1
    }
