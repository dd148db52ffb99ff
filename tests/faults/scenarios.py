"""What goes wrong, and how it is counted: each scenario is a fault in the midst of a load of careful writers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from .places import Place, audit, place
from .running import Service
from .writers import CarefulClient, Load, Tally, batch

FREEZES_SECONDS = (10, 20, 30, 45, 15)  # of one repetition after the other
HELD_SECONDS = 5.0
FULL_SECONDS = 3.0
DOWN_SECONDS = 0.5
WRITES_BEFORE_AND_AFTER = 40
MOST_OF_A_BATCH = 1000


@dataclass
class Stage:
    """Where a fault happens."""

    place: Place
    services: list[Service]
    load: Load
    repetition: int
    batch_size: int

    @property
    def service(self) -> Service:
        """The first replica."""
        return self.services[0]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A fault, and what it happens to."""

    name: str
    database: str  # "sqlite" or "postgresql"
    fault: Callable[[Stage], None]
    workers: int = 1
    replicas: int = 1
    small_disk: bool = False
    settings: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """What came of some repetitions of a scenario."""

    scenario: Scenario
    repetitions: int = 0
    acknowledged: int = 0
    stored: int = 0
    doubled: int = 0
    lost: int = 0
    given_up: int = 0
    cut: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    longest_wait_seconds: float = 0.0
    exits: Counter[int] = field(default_factory=Counter)
    without_disk: bool = False  # files were kept from growing, as no small disk could be mounted
    broken: int = 0  # repetitions that could not be played to their end

    @property
    def held(self) -> bool:
        """Whether nothing was lost, doubled or given up, and every stop was a clean one."""
        return not (self.broken or self.doubled or self.lost or self.given_up or self.stored != self.acknowledged) and set(self.exits) == {
            0
        }

    def add(self, stage: Stage, tally: Tally) -> None:
        """Add a repetition."""
        counted = audit(stage.place, tally)
        self.repetitions += 1
        self.acknowledged += counted.acknowledged
        self.stored += counted.stored
        self.doubled += counted.doubled
        self.lost += counted.lost
        self.given_up += len(tally.given_up)
        self.cut += tally.cut
        self.refused += tally.refused
        self.longest_wait_seconds = max(self.longest_wait_seconds, tally.longest_wait_seconds)
        self.exits.update(status for service in stage.services for status in service.exits)
        self.without_disk |= self.scenario.small_disk and stage.place.disk is None


def play(scenario: Scenario, outcome: Outcome, *, writes: int = WRITES_BEFORE_AND_AFTER, batch_size: int = MOST_OF_A_BATCH) -> None:
    """One repetition: writes, the fault, writes again, a stop, and then the count."""
    with ExitStack() as stack:
        where = stack.enter_context(place(scenario.database, small_disk=scenario.small_disk))
        services = [
            Service(where.url, where.folder, workers=scenario.workers, settings=scenario.settings) for _ in range(scenario.replicas)
        ]
        for service in services:  # at once: each finds a database that none has migrated yet
            stack.callback(service.close)
            service.start()
        for service in services:
            service.wait_until_ready()
        load = Load([service.port for service in services])
        stage = Stage(where, services, load, outcome.repetitions + outcome.broken, batch_size)
        with load:
            load.wait_for(writes)
            scenario.fault(stage)
            load.wait_for(writes)
        for service in services:
            service.terminate()
        outcome.add(stage, load.tally)


def nothing(stage: Stage) -> None:
    """The start was the fault."""


def kill_worker(stage: Stage) -> None:
    """SIGKILL to a worker: the parent starts another, and of a single one whoever watches it does."""
    workers = stage.service.workers()
    if len(workers) == 1:
        stage.service.kill()
        stage.service.start()
        return
    os.kill(workers[stage.repetition % len(workers)], signal.SIGKILL)
    time.sleep(2)


def kill_server(stage: Stage) -> None:
    """SIGKILL to every process of the database; it is back after half a second."""
    stage.place.kill_server()
    time.sleep(DOWN_SECONDS)
    stage.place.start_server()


def restart_server(stage: Stage) -> None:
    """The database stops at once, without a word to its clients, and starts again."""
    stage.place.running().stop()
    stage.place.start_server()


def freeze_server(stage: Stage) -> None:
    """The database is there and does not answer."""
    with stage.place.frozen():
        time.sleep(FREEZES_SECONDS[stage.repetition % len(FREEZES_SECONDS)])


def exhaust_pool(stage: Stage) -> None:
    """Whoever takes a connection does not give it back for a while."""
    with stage.place.held():
        time.sleep(HELD_SECONDS)


def fill_disk(stage: Stage) -> None:
    """The disk is full for a while; a database that gave up is started again once it is not."""
    with stage.place.full(stage.service.workers()):
        time.sleep(FULL_SECONDS)
    server = stage.place.server
    if server is not None and not (server.data / "postmaster.pid").exists():
        stage.place.start_server()


def stop_under_load(stage: Stage) -> None:
    """It is told to stop, and started again."""
    stage.service.terminate()
    stage.service.start()


def stop_during_batch(stage: Stage) -> None:
    """It is told to stop while it works on a batch."""
    _during_batch(stage, stage.service.terminate)


def kill_during_batch(stage: Stage) -> None:
    """It is killed while it works on a batch."""
    _during_batch(stage, stage.service.kill)


def _during_batch(stage: Stage, end: Callable[[], None]) -> None:
    document, names = batch("batch", stage.batch_size)
    with closing(CarefulClient(stage.service.port, stage.load.tally)) as client:
        writing = threading.Thread(target=client.post, args=("/v1/quotes/batch", document, names), daemon=True)
        writing.start()
        time.sleep(0.15 * (1 + stage.repetition % 5))  # at another moment of the batch each time
        end()
        stage.service.start()
        writing.join()


_IMPATIENT = {"RUNQUOTE_DATABASE_CONNECTIONS": "2", "RUNQUOTE_DATABASE_TIMEOUT_SECONDS": "2"}

SCENARIOS = (
    Scenario(name="kill -9 of the only worker", database="sqlite", fault=kill_worker),
    Scenario(name="kill -9 of the only worker", database="postgresql", fault=kill_worker),
    Scenario(name="kill -9 of one of two workers", database="postgresql", fault=kill_worker, workers=2),
    Scenario(name="kill -9 during a batch of 1000", database="sqlite", fault=kill_during_batch),
    Scenario(name="kill -9 during a batch of 1000", database="postgresql", fault=kill_during_batch, workers=2),
    Scenario(name="kill -9 of PostgreSQL, back after 0.5 s", database="postgresql", fault=kill_server, workers=2),
    Scenario(name="immediate restart of PostgreSQL", database="postgresql", fault=restart_server, workers=2),
    Scenario(name="PostgreSQL frozen for 10 to 45 s", database="postgresql", fault=freeze_server, workers=2),
    Scenario(name="2 connections, all held for 5 s", database="sqlite", fault=exhaust_pool, settings=_IMPATIENT),
    Scenario(name="2 connections, all held for 5 s", database="postgresql", fault=exhaust_pool, workers=2, settings=_IMPATIENT),
    Scenario(name="disk full for 3 s", database="sqlite", fault=fill_disk, small_disk=True),
    Scenario(name="disk full for 3 s", database="postgresql", fault=fill_disk, workers=2, small_disk=True),
    Scenario(name="ten replicas start on an empty database", database="postgresql", fault=nothing, replicas=10),
    Scenario(name="SIGTERM under load", database="sqlite", fault=stop_under_load),
    Scenario(name="SIGTERM under load", database="postgresql", fault=stop_under_load, workers=2),
    Scenario(name="SIGTERM during a batch of 1000", database="sqlite", fault=stop_during_batch),
    Scenario(name="SIGTERM during a batch of 1000", database="postgresql", fault=stop_during_batch, workers=2),
)
