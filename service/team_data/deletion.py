"""Removing a team: every row of it, in every table, and nothing else."""

from __future__ import annotations

from sqlalchemy import Connection, MetaData, Table, delete, func, select

from service.kit.security import DEFAULT_TEAM_ID, teams


def team_tables(connection: Connection) -> list[Table]:
    """The tables that hold rows of teams, those that refer to others first; as the database has them, whichever rooms are loaded.

    A table without `team_id` hangs on one that has it, and its rows go with theirs (ON DELETE CASCADE).
    """
    found = MetaData()
    found.reflect(connection)
    return [table for table in reversed(found.sorted_tables) if "team_id" in table.c]


def team_id_of(connection: Connection, name: str) -> str | None:
    """The id of the team of that name."""
    found: str | None = connection.execute(select(teams.c.id).where(teams.c.name == name)).scalar_one_or_none()
    return found


def count_rows(connection: Connection, team_id: str) -> dict[str, int]:
    """How many rows of a team each table has."""
    return {
        table.name: connection.execute(select(func.count()).select_from(table).where(table.c.team_id == team_id)).scalar_one()
        for table in team_tables(connection)
    }


def delete_team(connection: Connection, team_id: str) -> dict[str, int]:
    """Remove a team; how many rows of each table that were. The default team stays, without rows: a service without keys is its.

    Whoever stores something for the team at this moment is waited for, and whoever comes later waits, and is then told that it is gone.
    """
    connection.execute(select(teams.c.id).where(teams.c.id == team_id).with_for_update())
    gone = {table.name: connection.execute(delete(table).where(table.c.team_id == team_id)).rowcount for table in team_tables(connection)}
    if team_id != DEFAULT_TEAM_ID:
        connection.execute(delete(teams).where(teams.c.id == team_id))
    return gone
