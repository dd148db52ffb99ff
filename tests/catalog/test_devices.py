"""The device catalog against its published figures and the traps of the lists it was made from."""

from __future__ import annotations

import pytest

from service.catalog.devices import devices, find

USED_BY_THE_CASES = (
    "a100-sxm-40gb a100-sxm-80gb a800-sxm-80gb h100-sxm-80gb h800-sxm-80gb h20-96gb h200-sxm-141gb b200-sxm-192gb b300-sxm-288gb "
    "gb200-192gb gb300-288gb v100-sxm-16gb v100-sxm-32gb a10g-24gb l40s-48gb rtx-a6000-48gb rtx-4090-24gb mi300x-192gb tpu-v5p tpu-v6e"
)
KINDS = ("bf16", "fp16", "fp8", "fp32")


def test_there_are_enough_and_the_cases_find_theirs() -> None:
    assert len(devices()) >= 40
    assert all(find(name) is not None for name in USED_BY_THE_CASES.split())


@pytest.mark.parametrize("name", sorted(devices()))
def test_entry(name: str) -> None:
    record = devices()[name].record
    assert record["source"] and record["date"]
    assert 0.85 * record["nominal_memory_bytes"] < record["memory_bytes"] <= 1.08 * record["nominal_memory_bytes"]
    assert record["hbm_bytes_per_second"] > 1e11
    assert record["peak_bf16_dense_flops_per_second"] or record["peak_fp16_dense_flops_per_second"]
    for kind in KINDS:
        dense, sparse = (record[f"peak_{kind}_{form}_flops_per_second"] for form in ("dense", "sparse"))
        assert sparse is None or sparse == pytest.approx(2 * dense, rel=1e-3)
    assert record["intra_node_bytes_per_second"] and record["inter_node_bytes_per_second"]


# Dense 16-bit peaks as the vendors' data sheets give them (the sparse figure halved where only that is printed).
PEAKS = {
    "h100-sxm-80gb": 989e12,
    "h100-nvl-94gb": 835e12,  # lists print 1979: two cards, or sparse
    "h100-pcie-80gb": 756e12,
    "a100-sxm-80gb": 312e12,
    "rtx-a6000-48gb": 154.8e12,  # lists print 38.7: not the matrix unit
    "a40-48gb": 149.7e12,
    "rtx-3090-24gb": 71e12,
    "rtx-4090-24gb": 165.2e12,
    "l40s-48gb": 362e12,
    "h20-96gb": 148e12,
    "mi300x-192gb": 1307e12,
    "tpu-v5p": 459e12,
    "v100-sxm-16gb": 125e12,
}


@pytest.mark.parametrize("name", PEAKS)
def test_peaks(name: str) -> None:
    assert devices()[name].device.reference_peak_flops_per_second == pytest.approx(PEAKS[name], rel=1e-3)


def test_h100_dense_and_sparse() -> None:
    record = devices()["h100-sxm-80gb"].record
    assert record["peak_bf16_dense_flops_per_second"] == pytest.approx(989e12, rel=1e-3)
    assert record["peak_bf16_sparse_flops_per_second"] == pytest.approx(1979e12, rel=1e-3)


def test_memory_is_the_drivers() -> None:
    assert devices()["a100-sxm-80gb"].device.memory_bytes == pytest.approx(84.99e9, rel=1e-4)
    assert devices()["a10g-24gb"].device.memory_bytes < 23.8e9
