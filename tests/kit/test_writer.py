"""Group commit: together where requests come together, each told the truth about its own row."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError, OperationalError

from service.kit.database import Database
from service.kit.security import teams
from service.kit.writer import GroupWriter
from tests.kit.test_migrations import counts

Row = dict[str, object]


def row(number: int) -> Row:
    return {"id": f"{number:036d}", "name": f"team {number}", "created_at": datetime.now(UTC)}


def stored(database: Database) -> int:
    with database.read() as connection:
        return counts(connection)["teams"]


class Store:
    """Counts how many rows come at a time; waits where it is told to."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.began = threading.Event()

    def __call__(self, connection: Connection, rows: Sequence[Row]) -> None:
        self.groups.append(len(rows))
        self.began.set()
        connection.execute(teams.insert(), list(rows))
        assert self.go_on.wait(20)


def test_what_comes_together_is_committed_together(database: Database) -> None:
    store = Store()
    writer = GroupWriter(database, store)
    before = stored(database)

    async def requests() -> None:
        await asyncio.gather(*(writer.write(row(number)) for number in range(10)))
        assert stored(database) == before + 10  # committed when they are told

    asyncio.run(requests())
    writer.close()
    assert store.groups == [10]


def test_what_comes_while_a_commit_runs_is_in_the_next(database: Database) -> None:
    store = Store()
    writer = GroupWriter(database, store)

    async def requests() -> None:
        store.go_on.clear()
        first = asyncio.ensure_future(writer.write(row(0)))
        await asyncio.to_thread(store.began.wait, 20)
        others = [asyncio.ensure_future(writer.write(row(number))) for number in (1, 2, 3)]
        await asyncio.sleep(0.01)
        assert not first.done()
        store.go_on.set()
        await asyncio.gather(first, *others)

    asyncio.run(requests())
    writer.close()
    assert store.groups == [1, 3]


def test_a_row_that_is_refused_does_not_take_the_others_along(database: Database) -> None:
    writer = GroupWriter(database, Store())
    before = stored(database)

    async def requests() -> list[BaseException | None]:
        return await asyncio.gather(*(writer.write(row(number)) for number in (1, 2, 2, 3)), return_exceptions=True)

    answers = asyncio.run(requests())
    writer.close()
    assert [type(answer) for answer in answers] == [type(None), type(None), IntegrityError, type(None)]
    assert stored(database) == before + 3


def test_where_the_database_is_away_everybody_is_told_once(database: Database) -> None:
    calls = []

    def away(connection: Connection, rows: Sequence[Row]) -> None:
        calls.append(len(rows))
        raise OperationalError("INSERT", {}, Exception("the server closed the connection"))

    writer = GroupWriter(database, away)

    async def requests() -> list[BaseException | None]:
        return await asyncio.gather(*(writer.write(row(number)) for number in range(3)), return_exceptions=True)

    assert [type(answer) for answer in asyncio.run(requests())] == [OperationalError] * 3
    writer.close()
    assert calls == [3]


def test_a_request_that_is_given_up_does_not_stop_the_others(database: Database) -> None:
    writer = GroupWriter(database, Store())
    before = stored(database)

    async def requests() -> None:
        given_up = asyncio.ensure_future(writer.write(row(1)))
        other = asyncio.ensure_future(writer.write(row(2)))
        await asyncio.sleep(0)
        given_up.cancel()
        await other
        with pytest.raises(asyncio.CancelledError):
            await given_up

    asyncio.run(requests())
    writer.close()
    assert stored(database) == before + 2


def test_an_application_that_is_started_again_stores_again(database: Database) -> None:
    """Each start has a loop of its own; a request that the first one left behind does not hold up the second."""
    store = Store()
    writer = GroupWriter(database, store)
    before = stored(database)

    async def give_up() -> None:
        request = asyncio.ensure_future(writer.write(row(1)))
        await asyncio.sleep(0)
        request.cancel()

    asyncio.run(give_up())
    writer.close()
    asyncio.run(asyncio.wait_for(writer.write(row(2)), 20))
    writer.close()
    asyncio.run(asyncio.wait_for(writer.write(row(3)), 20))
    writer.close()
    assert stored(database) >= before + 2
