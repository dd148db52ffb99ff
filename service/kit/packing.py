"""Stored JSON, compressed: what was answered is kept byte by byte, in about a tenth of its size.

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
# The fastest strategy with tables small enough to stay in the processor's cache: level 3 as it is takes half as long again for 10 % less.
PARAMETERS = zstandard.ZstdCompressionParameters.from_level(
    1, window_log=17, hash_log=13, write_checksum=True, write_content_size=True, write_dict_id=True
)

_mine = threading.local()  # a (de)compressor must not be used by two threads at once


@cache
def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    dictionary = zstandard.ZstdCompressionDict((FOLDER / f"{number}.zdict").read_bytes())
    dictionary.precompute_compress(compression_params=PARAMETERS)
    return dictionary


class Frame(bytes):
    """Bytes that are packed."""


def pack(content: bytes) -> Frame:
    """Compress."""
    compressor: zstandard.ZstdCompressor | None = getattr(_mine, "compressor", None)
    if compressor is None:
        compressor = _mine.compressor = zstandard.ZstdCompressor(compression_params=PARAMETERS, dict_data=_dictionary(NEWEST))
    return Frame(compressor.compress(content))


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
    """A column of bytes that are stored compressed; a `Frame` is stored as it is."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        """Packed on the way in."""
        return None if value is None else bytes(value if isinstance(value, Frame) else pack(value))

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        """As it was on the way out."""
        return None if value is None else unpack(bytes(value))
