"""Idempotency: a POST that creates may carry `Idempotency-Key`; repeated, it answers what the first one answered.

A key belongs to a team and a path and is kept for 24 hours. The first request reserves it in a transaction of its own, so
that others see it running; its answer is stored in the transaction that stores what it made, so one is never there
without the other. A request that fails gives the key back. A reservation lasts seconds, and the process that holds it says again
and again that it lives: one whose process died is soon taken over. Should a living one be taken for dead (its clock is far off, or
it was frozen), nothing is made twice: its answer is stored only if the reservation is still its own.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Header, Request
from fastapi.responses import Response
from sqlalchemy import Column, Connection, Index, Integer, PrimaryKeyConstraint, String, Table, Text, and_, delete, or_, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from .database import Database, UtcDateTime, metadata, team_column
from .identifiers import uuid7
from .packing import Packed
from .parted import PartedResponse
from .problems import KeyReused, Problem, StillRunning
from .security import Caller

log = logging.getLogger(__name__)

KEPT = timedelta(hours=24)
LEASE = timedelta(seconds=6)
RENEWED_SECONDS = LEASE.total_seconds() / 4  # a beat or two may be late

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Repeat a request safely: the same key and equal JSON answer the first result for 24 hours.",
    ),
]

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    team_column(),
    Column("path", String(300), nullable=False),
    Column("key", String(255), nullable=False),
    Column("fingerprint", String(64), nullable=False),  # SHA-256 of the body as canonical JSON
    Column("holder", String(36), nullable=False),  # which request holds the reservation
    Column("created_at", UtcDateTime, nullable=False),  # while the first request is running: when it was last known to
    Column("status", Integer),  # null while the first request is running
    Column("headers", Text),
    Column("body", Packed),
    PrimaryKeyConstraint("team_id", "path", "key"),
    Index(None, "created_at"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that can be stored and given again."""

    status: int
    body: str | bytes | list[bytes]  # JSON text, whole or in parts
    headers: dict[str, str] = field(default_factory=dict)
    kept: bytes | None = None  # JSON text to store in place of a body that would be stored twice: `create` is told how to read it

    def response(self, *, replayed: bool = False) -> Response:
        """As an HTTP response."""
        headers = {**self.headers, "Idempotency-Replayed": "true"} if replayed else self.headers
        if isinstance(self.body, list):
            return PartedResponse(self.body, self.status, headers, "application/json")
        return Response(self.body, self.status, headers, "application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """What a request makes, ready to be stored."""

    store: Callable[[Connection], Answer]  # in the transaction that keeps the answer too; it may run more than once
    stored: Callable[[], object] = lambda: None  # once it is committed
    collision: Problem | None = None  # what it means that a constraint of the database was violated
    tries: int = 1  # how often to store before that is said


def create(
    request: Request,
    caller: Caller,
    key: str | None,
    document: Any,
    prepare: Callable[[], Creation],
    restored: Callable[[Connection, bytes], bytes | list[bytes]] | None = None,
) -> Response:
    """Answer a request that creates, once for a key: `prepare` outside of a transaction, then store and keep the answer in one.

    A repeated key gets the first answer, which `restored` makes of what was `kept` of it; what `prepare` and `store` raise gives the
    key back.
    """
    database: Database = request.app.state.database
    with once(database, team_id=caller.team_id, path=request.url.path, key=key, document=document) as use:
        if use.replay is not None:
            first = use.replay
            if restored is not None:
                with database.read() as connection:
                    first = replace(first, body=restored(connection, _encoded(first.body)))
            return first.response(replayed=True)
        creation = prepare()
        answer = _committed(database, use, creation)
    creation.stored()
    return answer.response()


def _encoded(body: str | bytes | list[bytes]) -> bytes:
    if isinstance(body, list):
        return b"".join(body)
    return body.encode() if isinstance(body, str) else body


def _committed(database: Database, use: Once, creation: Creation) -> Answer:
    """Store what was prepared; committed when this returns."""
    for left in reversed(range(creation.tries)):
        try:
            with database.write() as work:
                answer = creation.store(work.connection)
                use.keep(work.connection, answer)
                work.commit()
            return answer
        except IntegrityError:
            if creation.collision is None:
                raise
            if not left:
                raise creation.collision from None
    raise AssertionError("a creation is tried at least once")


class Once:
    """One use of a key (or of none). `replay` is the first request's answer, if there was one."""

    def __init__(self, team_id: str, path: str, key: str | None, holder: str, replay: Answer | None = None) -> None:
        self.replay = replay
        self.kept = False
        self._team_id, self._path, self._key, self._holder = team_id, path, key, holder

    def keep(self, connection: Connection, answer: Answer) -> None:
        """Store the answer in the transaction that stores what was made."""
        if self._key is None:
            return
        body = _encoded(answer.body if answer.kept is None else answer.kept)
        values = {"status": answer.status, "headers": json.dumps(answer.headers), "body": body}
        done = connection.execute(update(idempotency_keys).where(self._mine()).values(values))
        if done.rowcount != 1:  # the reservation lapsed and another request took it
            raise StillRunning(headers={"Retry-After": str(math.ceil(LEASE.total_seconds()))})
        self.kept = True

    def _mine(self) -> Any:
        table = idempotency_keys.c
        return and_(table.team_id == self._team_id, table.path == self._path, table.key == self._key, table.holder == self._holder)


@contextmanager
def once(database: Database, *, team_id: str, path: str, key: str | None, document: Any) -> Iterator[Once]:
    """Reserve a key around the work of a request; endpoints use `create`."""
    if key is None:
        yield Once(team_id, path, None, "")
        return
    holder = uuid7()
    replay = _reserve(database, team_id, path, key, fingerprint(document), holder)
    use = Once(team_id, path, key, holder, replay)
    if replay is not None:
        yield use
        return
    heartbeat = _heartbeat(database)
    heartbeat.begin(holder)
    try:
        yield use
    except BaseException:
        use.kept = False  # kept, then rolled back: the row still says that it is running
        raise
    finally:
        heartbeat.end(holder)
        if not use.kept:
            _give_back(database, use)


def _give_back(database: Database, use: Once) -> None:
    """The key is free again; where the database does not answer, it lapses by itself."""
    try:
        with database.write() as work:
            work.connection.execute(delete(idempotency_keys).where(use._mine(), idempotency_keys.c.status.is_(None)))
            work.commit()
    except (SQLAlchemyError, TimeoutError) as error:
        log.warning("an idempotency key was not given back, it lapses in %g s: %s", LEASE.total_seconds(), type(error).__name__)


class _Heartbeat:
    """Says for the requests of this process that they are still running; its thread ends when there are none."""

    def __init__(self, database: Database) -> None:
        self._database = weakref.ref(database)
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._beating = False

    def begin(self, holder: str) -> None:
        """A request holds a reservation."""
        with self._lock:
            self._held.add(holder)
            if not self._beating:
                self._beating = True
                threading.Thread(target=self._beat, args=(threading.Event(),), name="idempotency-heartbeat", daemon=True).start()

    def end(self, holder: str) -> None:
        """It holds it no longer."""
        with self._lock:
            self._held.discard(holder)

    def _beat(self, never: threading.Event) -> None:
        while not never.wait(RENEWED_SECONDS):
            database = self._database()
            with self._lock:
                held = sorted(self._held)
                if not held or database is None:
                    self._beating = False
                    return
            try:
                renew(database, held)
            except (SQLAlchemyError, TimeoutError) as error:
                log.warning("idempotency keys were not renewed: %s", type(error).__name__)
            del database


_heartbeats: weakref.WeakKeyDictionary[Database, _Heartbeat] = weakref.WeakKeyDictionary()
_heartbeats_lock = threading.Lock()


def _heartbeat(database: Database) -> _Heartbeat:
    with _heartbeats_lock:
        return _heartbeats.setdefault(database, _Heartbeat(database))


def renew(database: Database, holders: Sequence[str]) -> None:
    """The requests that hold these reservations live: nobody takes them over."""
    table = idempotency_keys.c
    with database.write() as work:
        running = and_(table.holder.in_(holders), table.status.is_(None))
        work.connection.execute(update(idempotency_keys).where(running).values(created_at=datetime.now(UTC)))
        work.commit()


def fingerprint(document: Any) -> str:
    """Equal JSON, equal fingerprint: order of keys, white space and `1e3` against `1000` do not count."""
    # A batch may hold values that are refused one by one; they stand for themselves.
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":"), default=repr).encode()).hexdigest()


def _reserve(database: Database, team_id: str, path: str, key: str, mark: str, holder: str) -> Answer | None:
    """None: the key is ours. Otherwise the first request's answer, or the problem with it."""
    now = datetime.now(UTC)
    table = idempotency_keys.c
    row = {"team_id": team_id, "path": path, "key": key, "fingerprint": mark, "holder": holder, "created_at": now}
    lapsed = or_(table.created_at < now - KEPT, and_(table.status.is_(None), table.created_at < now - LEASE))
    for _ in range(3):  # between our insert and our look, the other may have given the key back
        try:
            with database.write() as work:
                work.connection.execute(
                    delete(idempotency_keys).where(table.team_id == team_id, table.path == path, table.key == key, lapsed)
                )
                work.connection.execute(idempotency_keys.insert().values(row))
                work.commit()
                return None
        except IntegrityError:
            pass
        with database.read() as connection:
            found = connection.execute(
                select(table.fingerprint, table.status, table.headers, table.body, table.created_at).where(
                    table.team_id == team_id, table.path == path, table.key == key
                )
            ).one_or_none()
        if found is None:
            continue
        if found.fingerprint != mark:
            raise KeyReused("This idempotency key was used with another body on this path")
        if found.status is None:
            # It has ended by then, or its process is gone; if it still lives, whoever asks again is told anew.
            left = found.created_at + LEASE - datetime.now(UTC)
            raise StillRunning(headers={"Retry-After": str(max(1, math.ceil(left.total_seconds())))})
        return Answer(found.status, found.body, json.loads(found.headers))
    raise StillRunning(headers={"Retry-After": "1"})


def forget_expired(database: Database) -> int:
    """Remove the keys that are older than they are kept; how many there were."""
    with database.write() as work:
        gone = work.connection.execute(delete(idempotency_keys).where(idempotency_keys.c.created_at < datetime.now(UTC) - KEPT))
        work.commit()
    return gone.rowcount
