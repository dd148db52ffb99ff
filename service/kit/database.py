"""The database: one engine for SQLite and PostgreSQL, portable column types, and transactions that are committed by hand.

Conventions for tables (each room defines its own beside its repository, on `metadata`; migrations spell them out again):

- SQLAlchemy Core tables; no ORM. Names are plural nouns; ids are `id_column()`: text of 36 characters holding a UUIDv7.
- Every row of a team carries `team_id` (`team_column()`), and every query filters by it.
- Times are `UtcDateTime` and end in `_at`; FLOPs, seconds and ratios are `Float`; bytes and tokens are `BigInteger`;
  money is integer micro-units with its currency; documents are `Text` holding JSON that the service wrote (`documents.dump`),
  whole answers `packing.Packed`.
- No JSON operators in queries: whatever is filtered by is a typed column. Enumerations are `String` with a named CHECK.
- Constraints and indexes get their names from the naming convention, so that SQLite's batch migrations can find them.

Reads: `with database.read() as connection`. Writes: `with database.write() as work: ...; work.commit()`: without the commit
everything is rolled back, and the commit comes before the response is built (a dependency's teardown runs after it is sent).
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import psycopg
from sqlalchemy import URL, Column, Connection, DateTime, Dialect, Engine, ForeignKey, MetaData, String, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.types import TypeDecorator

from .usage import UsageError

log = logging.getLogger(__name__)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """A moment. Naive times are refused and every offset is kept right: SQLite's own type drops the offset in silence."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC; SQLite stores it without the offset."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a naive datetime cannot be stored")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Always aware, always UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def id_column() -> Column[str]:
    """The primary key `id`: a UUIDv7 as text, so it sorts by time and needs no cast on either database."""
    return Column("id", String(36), primary_key=True)


def team_column() -> Column[str]:
    """`team_id`: whose row it is."""
    return Column("team_id", String(36), ForeignKey("teams.id"), nullable=False)


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows `on_conflict_do_nothing` and `on_conflict_do_update`, which both engines spell alike."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


MOST_ROWS_OF_A_STATEMENT = 50


def insert_plain(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns, without defaults, many with one statement.

    SQLAlchemy prepares parameters row by row through several layers, and drivers give up Python's lock for every row: both take as
    long as storing it.
    """
    for start in range(0, len(rows), MOST_ROWS_OF_A_STATEMENT):
        part = rows[start : start + MOST_ROWS_OF_A_STATEMENT]
        statement, order, processors = _insertion(table, connection.dialect, tuple(rows[0]), len(part))
        values = [{name: value if (process := processors[name]) is None else process(value) for name, value in row.items()} for row in part]
        if order is None:
            named = {f"{name}_{number}": value for number, row in enumerate(values) for name, value in row.items()}
            connection.exec_driver_sql(statement, named)
        else:
            connection.exec_driver_sql(statement, tuple(row[name] for row in values for name in order))


_Processors = dict[str, Callable[[Any], Any] | None]


@lru_cache(maxsize=256)
def _insertion(table: Table, dialect: Dialect, columns: tuple[str, ...], count: int) -> tuple[str, tuple[str, ...] | None, _Processors]:
    """The statement, the order of its parameters where the driver knows them by place, and what makes the driver's values."""
    compiled = table.insert().compile(dialect=dialect, column_keys=list(columns))
    head, values, row = str(compiled).partition(" VALUES ")
    many = ", ".join(re.sub(r"%\((\w+)\)s", rf"%(\1_{number})s", row) for number in range(count))
    processors: _Processors = {name: table.c[name].type.dialect_impl(dialect).bind_processor(dialect) for name in columns}
    return head + values + many, tuple(compiled.positiontup) if compiled.positiontup is not None else None, processors


class UnitOfWork:
    """One write transaction. What was not committed when the block ends is rolled back."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.committed = False

    def commit(self) -> None:
        """Make everything durable; call it before the response is built."""
        self.connection.commit()
        self.committed = True


class HungDatabase(psycopg.OperationalError):
    """The server took longer than it may to answer; its connection was given up."""


class _Patient(psycopg.Connection[Any]):
    """A connection that waits for the server as long as it may, by this side's clock.

    `statement_timeout` is kept by the server: one that is frozen, or behind a network that drops packets, never keeps it. TCP's own
    timeouts do not help where the kernel of the other side still acknowledges, as it does for a process that is stopped.
    """

    longest_wait_seconds = 600.0

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        """Wait as the driver does, for so long."""
        return super().wait(self._watched(gen, time.monotonic() + self.longest_wait_seconds), *arguments, **options)

    def _watched(self, waits: Generator[Any, Any, Any], end: float) -> Generator[Any, Any, Any]:
        """The driver's generator of what is waited for; it is told every `interval` that nothing came."""
        try:
            wanted = next(waits)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > end:
                    self.close()  # what it was about to answer is not known: nobody may use it again
                    raise HungDatabase(f"no answer from the database within {self.longest_wait_seconds:g} s")
                wanted = waits.send(ready)
        except StopIteration as done:
            return done.value


def _patient(longest_wait_seconds: float) -> Callable[..., _Patient]:
    """What opens connections that wait so long."""
    kind = type("_Patient", (_Patient,), {"longest_wait_seconds": longest_wait_seconds})

    def connect(*arguments: Any, **options: Any) -> _Patient:
        opened: _Patient = kind.connect(*arguments, **options)  # type: ignore[attr-defined]  # made by `type`
        return opened

    return connect


PROBE_SECONDS = 1.5
HUNG_FOR_SECONDS = 1.0  # for so long nobody else waits for a database that did not answer


class Database:
    """An engine and its two kinds of transactions."""

    def __init__(self, url: URL, *, connections: int = 20, timeout_seconds: float = 10) -> None:
        self.url = url
        self.sqlite = url.get_backend_name() == "sqlite"
        if self.sqlite and url.database in (None, "", ":memory:"):
            raise UsageError("an in-memory SQLite database cannot be shared by threads and migrations; name a file")
        self.engine = make_engine(url, connections=connections, timeout_seconds=timeout_seconds)
        # SQLite has one writer. Threads of this process queue here, in order; the busy timeout is for other processes.
        self._writer = threading.Lock()
        self._timeout_seconds = timeout_seconds
        self._hung_until = 0.0  # by the monotonic clock
        # Asked whether it is there, the database answers on a connection of its own: those of requests may all be waiting.
        self._probe = make_engine(url, connections=1, timeout_seconds=PROBE_SECONDS)

    @contextmanager
    def probe(self) -> Iterator[Connection]:
        """A connection for asking whether the database answers: it waits `PROBE_SECONDS` at most."""
        with self._probe.connect() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading; nothing it does is kept."""
        with self._noticing_hangs(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[UnitOfWork]:
        """A unit of work; `commit()` it before the block ends."""
        if self.sqlite and not self._writer.acquire(timeout=self._timeout_seconds):
            raise TimeoutError("another write holds the SQLite database")
        try:
            with self._noticing_hangs(), self.engine.connect().execution_options(begin_immediate=True) as connection:
                yield UnitOfWork(connection)
        finally:
            if self.sqlite:
                self._writer.release()

    @contextmanager
    def _noticing_hangs(self) -> Iterator[None]:
        """Who waited in vain has waited for all: what queued behind is told at once, for a moment."""
        if time.monotonic() < self._hung_until:
            raise TimeoutError("the database did not answer a moment ago")
        try:
            yield
        except OperationalError as error:
            if isinstance(error.orig, HungDatabase | psycopg.errors.ConnectionTimeout):
                self._hung_until = time.monotonic() + HUNG_FOR_SECONDS
            raise

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()
        self._probe.dispose()


def make_engine(url: URL, *, connections: int = 20, timeout_seconds: float = 10) -> Engine:
    """An engine whose connections are set up the same way everywhere (service, migrations, tests)."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=timeout_seconds,
            connect_args={"timeout": timeout_seconds, "check_same_thread": False},
            hide_parameters=True,
        )
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    milliseconds = int(timeout_seconds * 1000)
    engine = create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=timeout_seconds,
        hide_parameters=True,  # errors are logged, and parameters are what callers sent
        # A connection that a proxy cut while idle is found by its age, not by a round trip on every checkout.
        pool_recycle=600,
        pool_use_lifo=True,
        connect_args={
            "connect_timeout": max(2, int(timeout_seconds)),  # the driver knows no less than 2
            "options": f"-c timezone=UTC -c statement_timeout={milliseconds} -c lock_timeout={milliseconds}",
            # A host that is gone: the kernel gives up what is not acknowledged, and looks after connections that are idle.
            "tcp_user_timeout": milliseconds,
            "keepalives_idle": 30,
            "keepalives_interval": 5,
            "keepalives_count": 3,
        },
    )
    # The server, where it lives, says by itself that a statement took too long, and keeps the connection: it is given the time to.
    connect = _patient(timeout_seconds * _GRACE)

    def open_connection(_: Dialect, __: Any, arguments: Any, options: Any) -> Any:
        return connect(*arguments, **options)

    event.listen(engine, "do_connect", open_connection)
    return engine


_GRACE = 1.1


def _set_up_sqlite(connection: Any, _: ConnectionPoolEntry) -> None:
    """Pragmas are per connection."""
    # The driver's own transaction handling loses updates under threads; transactions are begun in `_begin_sqlite`.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")  # readers do not block the writer
    cursor.execute("PRAGMA synchronous=FULL")  # a 201 survives a power cut
    cursor.execute("PRAGMA foreign_keys=ON")  # off by default in SQLite
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """Writers take the lock first: a read that turns into a write fails with 'database is locked' whatever the timeout."""
    immediate = connection.get_execution_options().get("begin_immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
