"""The next dictionary of stored answers, from the quotes of the public measured runs: ``python -m tests.benchmarks.train_dictionary``.

Half of the quotes train it, the other half say what a stored quote takes with it. Raise ``service.kit.packing.NEWEST`` to use it, and
pin its SHA-256 in ``tests/kit/test_packing.py``: what was written with a dictionary can be read with that one alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from pathlib import Path

import zstandard

from service.kit import documents, packing
from service.kit.problems import Problem
from service.quotes.quoting import build

CASES = Path(__file__).resolve().parents[1] / "cases"
SIZE_BYTES = 64 * 1024  # twice as much gains 3 per cent, half as much loses 22


def quotes() -> list[bytes]:
    """The documents of all measured runs that can be quoted."""
    found = []
    for name in ("measured_public", "measured_vtrain"):
        for line in (CASES / f"{name}.jsonl").read_text().splitlines():
            try:
                found.append(documents.encode(build(json.loads(line)["spec"])))
            except Problem:
                continue
    return found


def main() -> None:
    """Train and say what it gains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=packing.NEWEST + 1, help="of the dictionary (default: the next)")
    number = parser.parse_args().number
    documents_ = quotes()
    random.Random(1).shuffle(documents_)
    trained, others = documents_[::2], documents_[1::2]
    dictionary = zstandard.train_dictionary(SIZE_BYTES, trained, dict_id=number, level=1)
    path = packing.FOLDER / f"{number}.zdict"
    path.write_bytes(dictionary.as_bytes())
    compressor = zstandard.ZstdCompressor(compression_params=packing.PARAMETERS, dict_data=dictionary)
    sizes = [len(compressor.compress(document)) for document in others]
    print(f"{path}: SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    print(
        f"{len(others)} quotes of {sum(map(len, others)) / len(others):.0f} bytes take {sum(sizes) / len(sizes):.0f}, {max(sizes)} at most"
    )


if __name__ == "__main__":
    main()
