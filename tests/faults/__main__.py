"""Faults under load, counted: ``python -m tests.faults [--repetitions 5] [--only WORDS] [--crowd | --no-crowd]``.

Prints the README's tables, in half an hour or so; scenarios and their time are bounded, and it leaves nothing behind. Its answer
is 0 where every acknowledged write was stored once, every stop was clean, and a crowd did not slow the others. All is on loopback.
"""

from __future__ import annotations

import argparse
import sys

from . import crowd
from .report import table
from .scenarios import SCENARIOS, Outcome, play


def main() -> int:
    """Play them, and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="", help="scenarios whose name or database holds this")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--crowd", action="store_true", help="the crowd alone")
    which.add_argument("--no-crowd", action="store_true", help="all but the crowd")
    options = parser.parse_args()

    outcomes = []
    for scenario in () if options.crowd else SCENARIOS:
        if options.only not in f"{scenario.name} {scenario.database}":
            continue
        outcome = Outcome(scenario)
        for _ in range(options.repetitions):
            try:
                play(scenario, outcome)
            except Exception as error:
                print(f"{scenario.name}, {scenario.database}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                outcome.broken += 1
        outcomes.append(outcome)
        print(table([outcome]).splitlines()[-1], file=sys.stderr, flush=True)
    if outcomes:
        print(table(outcomes))
    crowds: list[crowd.Crowd] = []
    if not options.no_crowd and not options.only:
        crowds = [crowd.measure(database, workers) for database, workers in crowd.MEASURED]
        print()
        print(crowd.table(crowds))
    return 0 if all(one.held for one in outcomes) and all(one.held for one in crowds) else 1


if __name__ == "__main__":
    sys.exit(main())
