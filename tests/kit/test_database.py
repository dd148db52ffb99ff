"""Transactions and types behave alike on both engines, where the drivers alone would not."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import URL, Column, Connection, Engine, Integer, MetaData, Table, select, text, update
from sqlalchemy.exc import IntegrityError, OperationalError
from starlette.testclient import TestClient

from service.kit.database import Database, UnitOfWork, UtcDateTime
from service.kit.usage import UsageError
from service.quotes import examples

scratch = MetaData()
counter = Table("scratch_counter", scratch, Column("id", Integer, primary_key=True), Column("value", Integer))
moments = Table("scratch_moments", scratch, Column("id", Integer, primary_key=True), Column("moment", UtcDateTime))


@pytest.fixture
def tables(engine: Engine, database: Database) -> Any:
    with database.write() as work:
        scratch.create_all(work.connection)
        work.commit()
    yield
    with database.write() as work:
        scratch.drop_all(work.connection)
        work.commit()


def test_no_update_is_lost_among_threads(database: Database, tables: None) -> None:
    with database.write() as work:
        work.connection.execute(counter.insert().values(id=1, value=0))
        work.commit()

    def increment(_: int) -> None:
        with database.write() as work:
            # PostgreSQL reads the newest row under this lock; SQLite's whole transaction holds its own from the start.
            query = select(counter.c.value).with_for_update()
            work.connection.execute(update(counter).values(value=work.connection.execute(query).scalar_one() + 1))
            work.commit()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(increment, range(80)))
    with database.read() as connection:
        assert connection.execute(select(counter.c.value)).scalar_one() == 80


def test_two_processes_do_not_lock_each_other_out(database: Database, database_url: URL, tables: None) -> None:
    """Another `Database` on the same file stands for another process: it knows nothing of the first one's queue."""
    other = Database(database_url)
    with database.write() as work:
        work.connection.execute(counter.insert().values(id=1, value=0))
        work.commit()

    def increment(which: Database) -> None:
        for _ in range(20):
            with which.write() as work:
                work.connection.execute(update(counter).values(value=counter.c.value + 1))
                work.commit()

    threads = [threading.Thread(target=increment, args=(which,)) for which in (database, other, database, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    with database.read() as connection:
        assert connection.execute(select(counter.c.value)).scalar_one() == 80


def test_what_is_not_committed_is_rolled_back(database: Database, tables: None) -> None:
    with database.write() as work:
        work.connection.execute(counter.insert().values(id=1, value=1))
    with pytest.raises(RuntimeError), database.write() as work:
        work.connection.execute(counter.insert().values(id=2, value=2))
        raise RuntimeError
    with database.read() as connection:
        assert connection.execute(select(counter)).all() == []


def test_a_write_through_a_reading_connection_is_not_kept(database: Database, tables: None) -> None:
    with database.read() as connection:
        connection.execute(counter.insert().values(id=1, value=1))
    with database.read() as connection:
        assert connection.execute(select(counter)).all() == []


def test_foreign_keys_hold(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as work:
        work.connection.execute(
            text("INSERT INTO api_keys (id, team_id, lookup, hash, scopes, created_at) VALUES ('a', 'nobody', 'b', 'c', 'd', '2026-01-01')")
        )


def test_readers_see_what_was_committed_while_a_write_is_open(database: Database, tables: None) -> None:
    with database.write() as work:
        work.connection.execute(counter.insert().values(id=1, value=1))
        with database.read() as connection:
            assert connection.execute(select(counter)).all() == []
        work.commit()
        with database.read() as connection:
            assert len(connection.execute(select(counter)).all()) == 1


aware = st.datetimes(
    min_value=datetime(1900, 1, 1),
    max_value=datetime(2200, 1, 1),
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m))),
)


@given(moment=aware)
@hypothesis_settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_moment_comes_back_as_the_same_moment_in_utc(database: Database, tables: None, moment: datetime) -> None:
    with database.write() as work:
        work.connection.execute(moments.delete())
        work.connection.execute(moments.insert().values(id=1, moment=moment))
        found = work.connection.execute(select(moments.c.moment)).scalar_one()
    assert found == moment
    assert found.tzinfo is UTC


def test_moments_compare_in_queries(database: Database, tables: None) -> None:
    first = datetime(2026, 1, 1, 12, tzinfo=UTC)
    same = first.astimezone(timezone(timedelta(hours=3)))
    with database.write() as work:
        work.connection.execute(moments.insert(), [{"id": index, "moment": first + timedelta(microseconds=index)} for index in range(3)])
        work.commit()
        assert work.connection.execute(select(moments.c.id).where(moments.c.moment > same).order_by("id")).scalars().all() == [1, 2]


def test_a_naive_moment_is_refused(database: Database, tables: None) -> None:
    with database.write() as work, pytest.raises(Exception, match="naive"):
        work.connection.execute(moments.insert().values(id=1, moment=datetime(2026, 1, 1)))


def test_an_in_memory_database_is_refused() -> None:
    for name in (None, "", ":memory:"):
        with pytest.raises(UsageError, match="in-memory"):
            Database(URL.create("sqlite", database=name))


def test_a_commit_that_fails_is_not_answered_as_created(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit in a dependency's teardown would fail after the 201 was sent."""

    def fail(self: UnitOfWork) -> None:
        raise OperationalError("COMMIT", {}, Exception("disk full"))

    monkeypatch.setattr(UnitOfWork, "commit", fail)
    assert client.post("/v1/quotes", json=examples.SPEC).status_code == 503
    monkeypatch.undo()
    assert client.get("/v1/quotes").json()["items"] == []


def test_the_answer_is_built_after_the_commit(client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    commit = UnitOfWork.commit

    def look(self: UnitOfWork) -> None:
        commit(self)
        with database.read() as connection:
            seen.append(len(_ids(connection)))

    monkeypatch.setattr(UnitOfWork, "commit", look)
    assert client.post("/v1/quotes", json=examples.SPEC).status_code == 201
    assert seen == [1]


def _ids(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT id FROM quotes")).scalars())


def test_a_pool_without_a_free_connection_answers_503(client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.1)
    held = [database.engine.connect() for _ in range(20)]
    try:
        answer = client.get("/v1/quotes")
    finally:
        for connection in held:
            connection.close()
    assert answer.status_code == 503
    assert client.get("/v1/quotes").status_code == 200
