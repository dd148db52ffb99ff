"""Four hostile callers at full speed, and what another team sees of them: previews and health, idle and crowded, in turns."""

from __future__ import annotations

import http.client
import itertools
import json
import math
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from service.keys import repository as keys
from service.kit import migration
from service.kit.database import Database
from service.quotes import examples

from .hostile import KINDS
from .places import Place, place
from .running import ROOT, Service

MEASURED = (("sqlite", 1), ("postgresql", 2))
ROUNDS = 3
IDLE_SECONDS = 5.0
CROWDED_SECONDS = 12.0
BETWEEN_ASKS_SECONDS = 0.04
MOST_TIMES_IDLE = 3.0
MOST_HEALTH_SECONDS = 0.05
SCOPES = ("quotes:read", "quotes:write", "plans:run")
PREVIEW = json.dumps(examples.SPEC).encode()


@dataclass
class Seen:
    """Seconds that answers took, and those that were not 200."""

    preview: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    failed: Counter[int] = field(default_factory=Counter)


@dataclass
class Crowd:
    """What another team saw."""

    database: str
    workers: int
    idle: Seen = field(default_factory=Seen)
    crowded: Seen = field(default_factory=Seen)
    told: dict[str, Counter[str]] = field(default_factory=dict)  # to each hostile caller, by status

    @property
    def ratio(self) -> float:
        """P99 of a preview in the crowd, by that when idle."""
        return p99(self.crowded.preview) / p99(self.idle.preview)

    @property
    def held(self) -> bool:
        """Whether the others did not suffer."""
        failed = self.idle.failed + self.crowded.failed
        return self.ratio < MOST_TIMES_IDLE and p99(self.crowded.health) < MOST_HEALTH_SECONDS and not failed


def p99(seconds: Sequence[float]) -> float:
    """The 99th percentile; endless where nothing was answered."""
    return sorted(seconds)[max(0, math.ceil(0.99 * len(seconds)) - 1)] if seconds else math.inf


def measure(database: str, workers: int, *, rounds: int = ROUNDS, idle: float = IDLE_SECONDS, crowded: float = CROWDED_SECONDS) -> Crowd:
    """Idle and crowded in turns, so that a busy machine slows both alike."""
    found = Crowd(database, workers, told={kind: Counter() for kind in KINDS})
    with ExitStack() as stack:
        where = stack.enter_context(place(database))
        migration.upgrade(where.url)
        own, *theirs = _keys(where, "careful", *KINDS)
        service = Service(where.url, where.folder, workers=workers, settings={"RUNQUOTE_AUTH": "required"})
        stack.callback(service.close)
        service.start()
        service.wait_until_ready()
        _watch(service.port, own, Seen(), 1.0)  # first answers pay for caches
        for _ in range(rounds):
            _watch(service.port, own, found.idle, idle)
            hostile = [stack.enter_context(_Caller(kind, service.port, key, crowded + 1)) for kind, key in zip(KINDS, theirs, strict=True)]
            time.sleep(1)  # until they are at it
            _watch(service.port, own, found.crowded, crowded)
            for caller in hostile:
                found.told[caller.kind].update(caller.wait())
    return found


class _Caller:
    """A hostile caller: a process, so that this one's clock is not slowed by it."""

    def __init__(self, kind: str, port: int, key: str, seconds: float) -> None:
        self.kind = kind
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.hostile", kind, str(port), key, str(seconds)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait(self) -> dict[str, int]:
        """What it was told, by status."""
        output, _ = self._process.communicate(timeout=180)
        told: dict[str, int] = json.loads(output)
        return told


def _keys(where: Place, *teams: str) -> list[str]:
    database = Database(where.url)
    with database.write() as work:
        made = [keys.create_key(work.connection, team, SCOPES, datetime.now(UTC)) for team in teams]
        work.commit()
    database.close()
    return made


def _watch(port: int, key: str, seen: Seen, seconds: float) -> None:
    """Ask for previews and for health, one at a time each, on connections to whichever worker takes them."""
    asked: tuple[tuple[str, str, bytes | None, dict[str, str], list[float]], ...] = (
        ("POST", "/v1/quotes/preview", PREVIEW, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}, seen.preview),
        ("GET", "/healthz", None, {}, seen.health),
    )
    watchers = [threading.Thread(target=_ask_on, args=(port, *one, seen.failed, time.monotonic() + seconds)) for one in asked]
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join()


def _ask_on(
    port: int, method: str, path: str, body: bytes | None, headers: dict[str, str], took: list[float], failed: Counter[int], end: float
) -> None:
    connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(4)]
    for connection in itertools.cycle(connections):
        if time.monotonic() > end:
            break
        began = time.monotonic()
        status = 0
        with suppress(OSError, http.client.HTTPException):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        took.append(time.monotonic() - began)
        if status != 200:
            failed[status] += 1
            connection.close()
        time.sleep(max(0.0, BETWEEN_ASKS_SECONDS - (time.monotonic() - began)))
    for connection in connections:
        connection.close()


def table(crowds: Sequence[Crowd]) -> str:
    """A row for each."""
    head = (
        "database | workers | preview idle P50, P99, ms | crowded P50, P99, ms | P99 ratio (< 3) | /healthz idle P99, ms"
        " | crowded P99 (< 50), longest, ms | failed | told to the hostile callers"
    )
    rows = [head, "|".join("---" for _ in head.split("|"))]
    for one in crowds:
        told = "; ".join(f"{kind}: {', '.join(f'{status} × {n}' for status, n in sorted(told.items()))}" for kind, told in one.told.items())
        cells = (
            {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[one.database],
            one.workers,
            f"{_ms(statistics.median(one.idle.preview))}, {_ms(p99(one.idle.preview))}",
            f"{_ms(statistics.median(one.crowded.preview))}, {_ms(p99(one.crowded.preview))}",
            f"{one.ratio:.1f}",
            _ms(p99(one.idle.health)),
            f"{_ms(p99(one.crowded.health))}, {_ms(max(one.crowded.health))}",
            dict(one.idle.failed + one.crowded.failed) or 0,
            told,
        )
        rows.append(" | ".join(str(cell) for cell in cells))
    return "\n".join(f"| {row} |" if "---" not in row else f"|{row}|" for row in rows)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"
