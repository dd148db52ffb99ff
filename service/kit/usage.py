"""What the person at the command line can mend."""

from __future__ import annotations


class UsageError(Exception):
    """A wrong option, setting or name: told in a line, without a traceback. Whatever else is raised is a bug and shows one."""

    exit_status = 2


class NewerDatabase(UsageError):
    """The database was brought up to date by a newer service than this one."""

    exit_status = 3
