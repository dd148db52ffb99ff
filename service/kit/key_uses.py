"""When keys were last used, to the minute, without a write for a request.

A process notes each use in its memory, and once a minute writes the last one of each key that was used meanwhile. A process that is
killed loses a minute of it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, or_

from .database import Database
from .security import api_keys

SECONDS_BETWEEN_WRITES = 60.0


class KeyUses:
    """The uses that are not written yet, of one process."""

    def __init__(self) -> None:
        self._last: dict[str, datetime] = {}

    def note(self, key_id: str, moment: datetime) -> None:
        """A key was used."""
        self._last[key_id] = moment

    def write(self, database: Database) -> int:
        """Write down what was noted; how many keys that were. What cannot be written is noted again."""
        noted, self._last = self._last, {}
        if not noted:
            return 0
        table = api_keys.c
        # In the order of their ids, so that processes that write at the same time do not wait for each other crosswise.
        rows = [{"key": key_id, "moment": noted[key_id]} for key_id in sorted(noted)]
        moment = bindparam("moment", type_=table.last_used_at.type)
        later = or_(table.last_used_at.is_(None), table.last_used_at < moment)
        try:
            with database.write() as work:
                work.connection.execute(api_keys.update().where(table.id == bindparam("key"), later).values(last_used_at=moment), rows)
                work.commit()
        except BaseException:
            self._last = {**noted, **self._last}
            raise
        return len(rows)
