"""Revisions of one quote at the same time: of each pair, one knows of the other."""

from __future__ import annotations

import threading
from typing import Any

from starlette.testclient import TestClient

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.2-1b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 2048,
    "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
}


def test_all_racing_revisions_but_the_first_say_beside_which_they_stand(client: TestClient) -> None:
    quoted = client.post("/v1/quotes", json=SPEC).json()
    answers: list[dict[str, Any]] = []
    start = threading.Barrier(8)

    def revise(number: int) -> None:
        start.wait()
        body = {"spec": {"batch": {"gradient_accumulation_steps": number + 2}}}
        answers.append(client.post(f"/v1/quotes/{quoted['id']}/revisions", json=body).json())

    threads = [threading.Thread(target=revise, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = {
        answer["id"]: [warning["detail"].split()[1] for warning in answer["warnings"] if warning["code"] == "superseded_before"]
        for answer in answers
    }
    assert len(told) == 8
    assert sum(not beside for beside in told.values()) == 1  # the first
    named = [beside[0] for beside in told.values() if beside]
    assert set(named) <= set(told) and len(set(named)) == 7  # each names the one just before it
