"""What the person at the command line can mend."""

from __future__ import annotations


class UsageError(Exception):
    """A wrong option, setting or name: told in a line, without a traceback. Whatever else is raised is a bug and shows one."""
