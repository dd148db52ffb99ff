"""The catalog over HTTP: every entry with source and date, and every name is one that a spec takes."""

from __future__ import annotations

from starlette.testclient import TestClient

from service.catalog.models import names


def test_devices(client: TestClient) -> None:
    devices = client.get("/v1/devices").json()["items"]
    assert len(devices) >= 40
    for device in devices:
        assert device["source"] and device["date"]
        for kind in ("bf16", "fp16", "fp8", "fp32"):
            for form in ("dense", "sparse"):
                assert f"peak_{kind}_{form}_flops_per_second" in device
        for name in ("memory_bytes", "hbm_bytes_per_second", "intra_node_bytes_per_second", "inter_node_bytes_per_second"):
            assert device[name] > 0


def test_models(client: TestClient) -> None:
    models = client.get("/v1/models").json()["items"]
    assert len(models) >= 80
    assert all(model["source"] and model["date"] for model in models)
    found = client.get("/v1/models/llama-3.1-8b").json()
    assert found["hf_config"]["hidden_size"] == 4096
    assert found["source"]


def test_unknown_model(client: TestClient) -> None:
    response = client.get("/v1/models/no-such-model")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert "no-such-model" not in response.json()["detail"]


def test_every_preset_gets_a_quote(client: TestClient) -> None:
    for name in names():
        spec = {
            "model": {"preset": name},
            "data": {"total_tokens": 10**9},
            "sequence_length": 512,
            "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
            "parallelism": {"sharding": "zero3"},
        }
        response = client.post("/v1/quotes/preview", json=spec)
        assert response.status_code == 200, (name, response.text)
        assert response.json()["summary"]["device_hours"]["expected"] > 0, name
