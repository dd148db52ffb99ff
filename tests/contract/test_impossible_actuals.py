"""A completed run of no device-hours is kept and flagged, as any other implausible value is."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.2-1b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 2048,
    "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
    "efficiency": {"mfu": 0.4},
}


@pytest.mark.parametrize("code", ["device_hours.run", "device_hours.training", "time.training"])
def test_nothing_takes_no_time(client: TestClient, code: str) -> None:
    """Below the time at the dense peak."""
    quote = client.post("/v1/quotes", json=SPEC).json()
    body = {"outcome": "completed", "source": "test", "measurements": [{"code": code, "value": 0, "method": "counter"}]}
    response = client.post(f"/v1/quotes/{quote['id']}/actuals", json=body)
    assert response.status_code == 201
    assert "below_lower_bound" in response.json()["items"][0]["flags"]
    comparison = client.get(f"/v1/quotes/{quote['id']}/comparison").json()
    assert all(row["log_ratio"] is None for row in comparison["rows"] if row["measured"] == 0)
