"""What is stored compressed comes back byte by byte, whoever reads it and whichever dictionary it was written with."""

from __future__ import annotations

import hashlib
import threading

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from service.kit import documents, packing
from service.quotes import examples
from service.quotes.quoting import build

# Frames are stored that only these dictionaries can read: a new one is added, an old one is never changed.
DICTIONARIES = {"1.zdict": "6758e101551cc4aaddea3b67dbe6daa4b7259c038b5593c421e059214c4e8aa5"}


def test_no_dictionary_ever_changes() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packing.FOLDER.iterdir()}
    assert found == DICTIONARIES
    assert f"{packing.NEWEST}.zdict" in found


@given(st.binary(max_size=2000))
def test_everything_comes_back(content: bytes) -> None:
    assert packing.unpack(packing.pack(content)) == content


def test_a_quote_takes_less_than_a_seventh() -> None:
    document = documents.encode(build(examples.SPEC))
    assert len(packing.pack(document)) < len(document) / 7


def test_a_damaged_frame_is_not_answered() -> None:
    frame = bytearray(packing.pack(b"device_hours.training" * 20))
    frame[-1] ^= 1  # of the checksum
    with pytest.raises(zstandard.ZstdError):
        packing.unpack(bytes(frame))


def test_threads_do_not_share_a_compressor() -> None:
    contents = [bytes([number]) * 20_000 for number in range(8)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            if packing.unpack(packing.pack(contents[number])) != contents[number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
