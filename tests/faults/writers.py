"""Writers that do as the README tells a client: a key for every write, and again, with patience, until it is acknowledged."""

from __future__ import annotations

import copy
import http.client
import itertools
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from service.quotes import examples

PATIENCE_SECONDS = 120.0
ANSWER_SECONDS = 70.0
LONGEST_PAUSE_SECONDS = 2.0
AGAIN = frozenset({409, 429, 500, 502, 503, 504})


@dataclass
class Tally:
    """What the writers were told; of several of them, with a lock."""

    acknowledged: dict[str, str] = field(default_factory=dict)  # name of the quote -> its id, empty where the answer gave none
    given_up: list[str] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)  # by status
    cut: int = 0  # connections refused, or closed without an answer
    longest_wait_seconds: float = 0.0  # from the first try of a write to its acknowledgement
    lock: threading.Lock = field(default_factory=threading.Lock)


class CarefulClient:
    """One connection that posts again what was not acknowledged."""

    def __init__(self, port: int, tally: Tally) -> None:
        self._port = port
        self._tally = tally
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, document: Any, names: Sequence[str]) -> None:
        """Write until it is acknowledged or patience ends; `names` are those of the quotes that it makes."""
        body, key = json.dumps(document).encode(), str(uuid.uuid4())
        began, tries = time.monotonic(), 0
        while time.monotonic() - began < PATIENCE_SECONDS:
            tries += 1
            try:
                status, headers = self._once(path, body, key)
            except (OSError, http.client.HTTPException):
                self.close()
                with self._tally.lock:
                    self._tally.cut += 1
                _pause(tries, None)
                continue
            if status == 201:
                location = headers.get("location", "")
                with self._tally.lock:
                    self._tally.acknowledged.update(dict.fromkeys(names, location.rpartition("/")[2]))
                    self._tally.longest_wait_seconds = max(self._tally.longest_wait_seconds, time.monotonic() - began)
                return
            with self._tally.lock:
                self._tally.refused[status] += 1
            if status not in AGAIN:
                break
            _pause(tries, headers.get("retry-after"))
        with self._tally.lock:
            self._tally.given_up.extend(names)
            self._tally.longest_wait_seconds = max(self._tally.longest_wait_seconds, time.monotonic() - began)

    def _once(self, path: str, body: bytes, key: str) -> tuple[int, Mapping[str, str]]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_SECONDS)
        self._connection.request("POST", path, body, {"Content-Type": "application/json", "Idempotency-Key": key})
        answer = self._connection.getresponse()
        answer.read()
        if answer.will_close:
            self.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _pause(tries: int, retry_after: str | None) -> None:
    """As long as was asked for; where nothing was, longer with every try and never in step with others."""
    if retry_after is not None:
        time.sleep(float(retry_after))
    else:
        time.sleep(min(LONGEST_PAUSE_SECONDS, 0.05 * 2 ** min(tries, 6)) * random.uniform(0.5, 1))


class Load:
    """Writers on the ports of the replicas, until the block ends; then each finishes the write it is at."""

    def __init__(self, ports: Sequence[int], *, writers: int = 8, pause_seconds: float = 0.03) -> None:
        self.tally = Tally()
        self._ended = threading.Event()
        self._pause_seconds = pause_seconds
        self._threads = [
            threading.Thread(target=self._write_on, args=(number, ports[number % len(ports)]), daemon=True) for number in range(writers)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS + ANSWER_SECONDS)

    def wait_for(self, acknowledged: int, seconds: float = 60.0) -> None:
        """Until so many more writes are acknowledged."""
        with self.tally.lock:
            goal = len(self.tally.acknowledged) + acknowledged
        end = time.monotonic() + seconds
        while len(self.tally.acknowledged) < goal and time.monotonic() < end:
            time.sleep(0.02)

    def _write_on(self, number: int, port: int) -> None:
        with closing(CarefulClient(port, self.tally)) as client:
            for written in itertools.count():
                if self._ended.is_set():
                    break
                name = f"writer {number} quote {written}"
                client.post("/v1/quotes", named(name), [name])
                time.sleep(self._pause_seconds)


def named(name: str) -> dict[str, Any]:
    """A spec under a name by which what was stored is counted."""
    return {**copy.deepcopy(examples.SPEC), "name": name}


def batch(name: str, size: int) -> tuple[dict[str, Any], list[str]]:
    """A batch of plain specs, and their names."""
    names = [f"{name} quote {number}" for number in range(size)]
    return {"specs": [named(one) for one in names]}, names
