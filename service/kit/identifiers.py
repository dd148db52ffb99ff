"""Identifiers: UUIDs of version 7 (RFC 9562), which sort by the moment they were made."""

from __future__ import annotations

import re
import secrets
import time

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def uuid7() -> str:
    """A new UUIDv7: 48 bits of milliseconds, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    number = (milliseconds & (1 << 48) - 1) << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_identifier(text: str) -> bool:
    """Whether a path segment can be an id at all; what cannot is not found, and never reaches the database."""
    return _UUID.fullmatch(text) is not None
