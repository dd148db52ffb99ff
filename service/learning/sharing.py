"""What a team may learn from other teams: only what no single one of them stands behind; pure.

Without this, cells of a device and stack that several teams run on would tell each what the others measured: a team without runs
could read the factor of a cell and invert it. So others' evidence is let into a shared cell only where enough teams with enough runs
agreed to it, no team has more runs in it than the middle one (of five teams or more none is then over a third of it), and it stands
there as that of one nameless place, whose own cells are never written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median_low

from .drivers import Evidence

LEAST_TEAMS = 5
LEAST_RUNS = 30
NAMELESS = "*"  # no team can be called so


def from_others(evidence: Iterable[tuple[str, Evidence]]) -> list[Evidence]:
    """Of (team, evidence) of other teams in the order in which runs ended: what may be learnt from, without names.

    Newer runs weigh more, so teams take turns: each one's newest stand together at the end, its second newest before them.
    """
    cells: dict[tuple[str, str], dict[str, list[int]]] = {}
    entries: list[Evidence] = []
    for place, (team, entry) in enumerate(evidence):
        entries.append(entry)
        cells.setdefault((entry.code, entry.facts.path()[0]), {}).setdefault(team, []).append(place)
    kept = sorted(turn for teams in cells.values() for turn in _clipped(list(teams.values())))
    return [_nameless(entries[place], index) for index, (_, place) in enumerate(kept)]


def _clipped(teams: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The newest of each team as (turn, place), no more of any than the middle one has; nothing where that is too few."""
    if len(teams) < LEAST_TEAMS:
        return []
    most = median_low([len(places) for places in teams])
    kept = [(-age, place) for places in teams for age, place in enumerate(reversed(places[-most:]))]
    return kept if len(kept) >= LEAST_RUNS else []


def _nameless(entry: Evidence, index: int) -> Evidence:
    return replace(entry, run=f"{NAMELESS}{index}", facts=replace(entry.facts, team=NAMELESS, cluster=None))
