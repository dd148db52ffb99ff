"""Stored JSON, compressed: what was answered is kept byte by byte, in less than a tenth of its size.

Nine tenths of an answer are words that stand in every answer (names, formulas, assumptions). They are in a dictionary that the
compression (Zstandard, RFC 8878) begins with, so that a document holds little but its numbers.

A frame names the dictionary that it was written with. A dictionary is therefore never changed nor removed; when the words have moved
on, `python -m tests.benchmarks.train_dictionary` makes the next one, `NEWEST` is raised, and older frames stay readable.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

import zstandard
from sqlalchemy import Dialect, LargeBinary
from sqlalchemy.types import TypeDecorator

FOLDER = Path(__file__).with_name("dictionaries")
NEWEST = 1
LEVEL = 3  # higher ones take three times as long and gain 3 per cent

_mine = threading.local()  # a (de)compressor must not be used by two threads at once


@cache
def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    dictionary = zstandard.ZstdCompressionDict((FOLDER / f"{number}.zdict").read_bytes())
    dictionary.precompute_compress(level=LEVEL)
    return dictionary


def pack(content: bytes) -> bytes:
    """Compress."""
    compressor: zstandard.ZstdCompressor | None = getattr(_mine, "compressor", None)
    if compressor is None:
        compressor = _mine.compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=_dictionary(NEWEST), write_checksum=True)
    return compressor.compress(content)


def unpack(frame: bytes) -> bytes:
    """What was packed, by whichever dictionary."""
    decompressors: dict[int, zstandard.ZstdDecompressor] | None = getattr(_mine, "decompressors", None)
    if decompressors is None:
        decompressors = _mine.decompressors = {}
    number = zstandard.get_frame_parameters(frame).dict_id
    decompressor = decompressors.get(number)
    if decompressor is None:
        decompressor = decompressors[number] = zstandard.ZstdDecompressor(dict_data=_dictionary(number))
    return decompressor.decompress(frame)


class Packed(TypeDecorator[bytes]):
    """A column of bytes that are stored compressed."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        """Packed on the way in."""
        return None if value is None else pack(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        """As it was on the way out."""
        return None if value is None else unpack(bytes(value))
