"""Quotes over HTTP beside a bare Starlette route that builds the same quote: ``python -m tests.benchmarks.http_speed``.

Every variant is a server process of its own, all are up for the whole run, and one after another gets the load for a slice of time,
round after round, so that a busy machine slows all of them alike: the ratios tell, not the rates. Beside the rate stands the CPU time
of the server's process for one quote, which neighbours disturb less; PostgreSQL's own is not in it. Every request has another spec.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from sqlalchemy import URL
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.kit import migration
from service.quotes.quoting import build
from tests import postgres

from .quote_latency import SPEC

ROOT = Path(__file__).resolve().parents[2]
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


async def quote(request: Request) -> Response:
    """The least that builds this quote: no check of the JSON's oddities, no corrections, no problem+json, no telemetry."""
    return Response(orjson.dumps(build(orjson.loads(await request.body()))), media_type="application/json")


def bare() -> Starlette:
    """One route, no middleware."""
    return Starlette(routes=[Route("/quote", quote, methods=["POST"])])


@dataclass(frozen=True, slots=True)
class Variant:
    """What is asked of which server."""

    name: str
    port: int
    process: int
    path: str
    quotes: int = 1  # in a request
    alike: bool = False  # the specs of one request differ in their names alone

    def requests(self) -> Iterator[bytes]:
        """Requests as bytes, each with another spec."""
        for number in itertools.count():
            ids = range(number * self.quotes, (number + 1) * self.quotes)
            specs = [SPEC | {"name": f"run {i}", "data": {"total_tokens": 10**12 + (number if self.alike else i)}} for i in ids]
            body = json.dumps({"specs": specs} if self.path.endswith("batch") else specs[0]).encode()
            head = f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            yield head.encode() + body

    def cpu_seconds(self) -> float:
        """Of the server's process so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


class Connection(asyncio.Protocol):
    """One client: a request, its answer, the next; the least work, so that the client is not what is measured."""

    def __init__(self, requests: Iterator[bytes], until: float) -> None:
        self._requests, self._until = requests, until
        self.done = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left: int | None = None
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The first request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        """A part of an answer."""
        if self._left is None:
            self._head += data
            head, end, rest = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            assert head[9:12] in (b"200", b"201"), head + rest
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self._left, data, self._head = int(length[15:]), rest, b""
        self._left -= len(data)
        if self._left == 0:
            self._left = None
            self.done += 1
            if time.perf_counter() < self._until:
                self._transport.write(next(self._requests))
            else:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        if not self.closed.done():
            self.closed.set_result(None)


async def load(variant: Variant, seconds: float, clients: int) -> tuple[float, float]:
    """Quotes a second, and microseconds of the server's CPU a quote."""
    requests = variant.requests()
    until = time.perf_counter() + seconds
    started, cpu = time.perf_counter(), variant.cpu_seconds()
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: Connection(requests, until), "127.0.0.1", variant.port) for _ in range(clients)]
    await asyncio.gather(*(protocol.closed for _, protocol in made))
    quotes = variant.quotes * sum(protocol.done for _, protocol in made)
    return quotes / (time.perf_counter() - started), (variant.cpu_seconds() - cpu) / quotes * 1e6


@contextlib.contextmanager
def server(application: str, folder: Path, url: URL | None = None) -> Iterator[tuple[int, int]]:
    """A server process: its port and its number."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RUNQUOTE_AUTH": "off", "RUNQUOTE_LOG_LEVEL": "error"}
    if url is not None:
        environment["RUNQUOTE_DATABASE_URL"] = url.render_as_string(hide_password=False)
        command = ["-m", "service", "--port", str(port)]
    else:
        command = ["-m", "uvicorn", "--factory", application, "--port", str(port), "--no-access-log", "--log-level", "error"]
    process = subprocess.Popen([sys.executable, *command], cwd=folder, env=environment)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a slice")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--batch", type=int, default=100, help="specs in a batch")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        variants = [Variant("bare route", *stack.enter_context(server("tests.benchmarks.http_speed:bare", folder)), "/quote")]
        databases = {"SQLite": URL.create("sqlite", database=str(folder / "quotes.db"))}
        started = stack.enter_context(postgres.server())
        if started is not None:
            databases["PostgreSQL"] = started.create()
            stack.callback(started.drop, databases["PostgreSQL"])
        for name, url in databases.items():
            migration.upgrade(url)
            place = stack.enter_context(server("", folder, url))
            variants += [
                Variant(f"preview, {name}", *place, "/v1/quotes/preview"),
                Variant(f"stored, {name}", *place, "/v1/quotes"),
                Variant(f"batch of {options.batch}, {name}", *place, "/v1/quotes/batch", options.batch),
                Variant(f"batch of {options.batch} equal runs, {name}", *place, "/v1/quotes/batch", options.batch, True),
            ]
        measure(variants, options.seconds, options.rounds, options.clients)


def measure(variants: list[Variant], seconds: float, rounds: int, clients: int) -> None:
    """The slices, and the table of them."""
    for variant in variants:
        asyncio.run(load(variant, seconds / 2, clients))
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(rounds):
        for variant in variants:
            found[variant.name].append(asyncio.run(load(variant, seconds, 2 if variant.quotes > 1 else clients)))
    print(f"{rounds} rounds of {seconds} s, {clients} clients; medians, and ratios of the same round\n")
    print(f"{'variant':36} {'quotes/s':>9} {'CPU us':>7}   ratio")
    for variant in variants:
        rows = found[variant.name]
        kind, _, database = variant.name.partition(", ")
        against = {"preview": "bare route", "stored": f"preview, {database}"}.get(kind, f"stored, {database}" if database else "")
        told = ""
        if against:
            rates = [row[0] / other[0] for row, other in zip(rows, found[against], strict=True)]
            costs = [other[1] / row[1] for row, other in zip(rows, found[against], strict=True)]
            told = f"{statistics.median(rates):.2f} of {against} (by CPU {statistics.median(costs):.2f})"
        print(f"{variant.name:36} {statistics.median(r for r, _ in rows):9.0f} {statistics.median(c for _, c in rows):7.0f}   {told}")


if __name__ == "__main__":
    main()
