"""One caller at full speed who waits for nothing: ``python -m tests.faults.hostile KIND PORT KEY SECONDS``.

Prints how often it was answered with each status.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

from service.quotes import examples

from .writers import batch

Asked = tuple[str, str, bytes | None]  # method, path, body


def batches() -> Iterator[Asked]:
    """A thousand plain specs each."""
    yield "POST", "/v1/quotes/batch", json.dumps(batch("hostile", 1000)[0]).encode()


def unknown_fields() -> Iterator[Asked]:
    """Bodies of 240 KB and of 12 MB full of fields that there are none of."""
    for count in (8_000, 400_000):
        yield "POST", "/v1/quotes", json.dumps({**examples.SPEC, **{f"micro_batch_sise_{n}": n for n in range(count)}}).encode()


def label_filters() -> Iterator[Asked]:
    """Three hundred label filters, and as many as are allowed to a careful caller."""
    for count in (300, 16, 8):
        yield "GET", "/v1/quotes?limit=200&" + "&".join(f"label.k{n}=v" for n in range(count)), None


def plans() -> Iterator[Asked]:
    """A search over some hundreds of layouts."""
    spec = {**examples.SPEC, "batch": {"global_batch_size": 1024}}
    free = {
        "parallelism.tensor": [1, 2, 4, 8],
        "parallelism.pipeline": [1, 2, 4],
        "parallelism.context": [1, 2, 4],
        "batch.micro_batch_size": [1, 2, 4, 8],
        "activation_checkpointing": ["none", "full"],
    }
    yield "POST", "/v1/plans", json.dumps({"spec": spec, "free": free, "objective": "device_hours", "limit": 10}).encode()


KINDS = {"batches": batches, "unknown fields": unknown_fields, "label filters": label_filters, "plans": plans}


def attack(kind: str, port: int, key: str, seconds: float) -> Counter[int]:
    """Ask as fast as answers come; 0 stands for no answer."""
    told: Counter[int] = Counter()
    connection: http.client.HTTPConnection | None = None
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    end = time.monotonic() + seconds
    for method, path, body in itertools.cycle(list(KINDS[kind]())):
        if time.monotonic() > end:
            break
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            while answer.read(65536):
                pass
            told[answer.status] += 1
            closes = answer.will_close
        except (OSError, http.client.HTTPException):
            told[0] += 1
            closes = True
        if closes and connection is not None:
            connection.close()
            connection = None
    return told


if __name__ == "__main__":
    os.nice(19)  # callers have machines of their own: here they are not to take the service's processors
    print(json.dumps(attack(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))))
