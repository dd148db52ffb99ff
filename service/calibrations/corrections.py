"""Calibrations as objects: fitted from history, written down, and looked up for a quote."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection

from service.estimation.correction import Factor
from service.kit.database import Database
from service.kit.problems import invalid
from service.learning import calibration, drivers
from service.learning.calibration import Cell, Fit
from service.learning.drivers import Facts

from . import repository

NEWEST_HOLDS_SECONDS = 1.0  # how late a process may take a calibration that another one made
TEAMS_REMEMBERED = 10_000
FITS_REMEMBERED = 32  # calibrations never change, so what was parsed once is kept


@dataclass(frozen=True, slots=True)
class Pinned:
    """The corrections of a quote, and the calibration they come from; none of either without one."""

    version: str | None = None
    factors: Mapping[str, Factor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A version with its fits."""

    version: str
    fits: Mapping[str, Fit]


class _Newest:
    """The newest calibration of each team of a database, as it was looked up last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[Database, dict[str, tuple[float, Calibration | None]]] = WeakKeyDictionary()

    def known(self, database: Database, team_id: str) -> tuple[float, Calibration | None] | None:
        with self._lock:
            found = self._known.get(database, {}).get(team_id)
        return found if found is not None and time.monotonic() < found[0] else None

    def keep(self, database: Database, team_id: str, found: Calibration | None) -> None:
        with self._lock:
            teams = self._known.setdefault(database, {})
            if len(teams) >= TEAMS_REMEMBERED:
                teams.clear()
            teams[team_id] = (time.monotonic() + NEWEST_HOLDS_SECONDS, found)

    def forget(self, database: Database, team_id: str) -> None:
        with self._lock:
            self._known.get(database, {}).pop(team_id, None)


_newest = _Newest()


def forget(database: Database, team_id: str) -> None:
    """A calibration was made: the next quote of this process takes it."""
    _newest.forget(database, team_id)


def remembered(database: Database, team_id: str, wanted: str | None) -> tuple[Calibration | None] | None:
    """What `find` would answer, if that needs no look into the database; else None."""
    if wanted == "none":
        return (None,)
    if wanted is not None and wanted != "latest":
        return None
    known = _newest.known(database, team_id)
    return None if known is None else (known[1],)


def find(database: Database, team_id: str, wanted: str | None) -> Calibration | None:
    """The calibration that ``wanted`` names: ``latest`` (or None), ``none``, or a version; None where there is none to apply.

    The newest is looked up once a second. A version that the team does not have is a bad value of the spec's ``calibration``.
    """
    known = remembered(database, team_id, wanted)
    if known is not None:
        return known[0]
    with database.read() as connection:
        found = _look_up(connection, team_id, wanted)
    if wanted is None or wanted == "latest":
        _newest.keep(database, team_id, found)
    return found


def _look_up(connection: Connection, team_id: str, wanted: str | None) -> Calibration | None:
    if wanted is None or wanted == "latest":
        newest = repository.newest_id(connection, team_id)
        if newest is None:
            return None
        calibration_id, version = newest
    else:
        found = repository.id_of(connection, team_id, wanted)
        if found is None:
            raise invalid("/calibration", "no such calibration; GET /v1/calibrations lists them")
        calibration_id, version = found, wanted
    return Calibration(version, _shelf.get(connection, calibration_id))


def apply(found: Calibration | None, facts: Facts, coverage: float) -> Pinned:
    """The corrections of a run from a calibration."""
    if found is None:
        return Pinned()
    return Pinned(found.version, drivers.corrections(found.fits, facts, coverage))


def fits_of(connection: Connection, team_id: str, version: str) -> Mapping[str, Fit]:
    """The fits of a version of the team's; none of a version that it does not have."""
    calibration_id = repository.id_of(connection, team_id, version)
    return {} if calibration_id is None else _shelf.get(connection, calibration_id)


class _Shelf:
    """The fits that were parsed last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._fits: OrderedDict[str, Mapping[str, Fit]] = OrderedDict()

    def get(self, connection: Connection, calibration_id: str) -> Mapping[str, Fit]:
        with self._lock:
            fits = self._fits.get(calibration_id)
            if fits is not None:
                self._fits.move_to_end(calibration_id)
                return fits
        fits = read(repository.document(connection, calibration_id))
        with self._lock:
            self._fits[calibration_id] = fits
            while len(self._fits) > self._size:
                self._fits.popitem(last=False)
        return fits


_shelf = _Shelf(FITS_REMEMBERED)


def write(fits: Mapping[str, Fit], own_paths: Sequence[Sequence[str]]) -> str:
    """Fits as JSON text. Of cells that name a team only those of ``own_paths`` are kept: others' are not this team's business."""
    own = {name for path in own_paths for name in path}
    return json.dumps(
        {
            code: {
                "between": fit.between,
                "cells": {
                    name: {
                        "parent": cell.parent,
                        "depth": cell.depth,
                        "n": cell.n,
                        "mean": cell.mean,
                        "variance": cell.variance,
                        "noise": cell.noise,
                        # A cell with too few scores speaks through its parent; the global one has none.
                        "scores": [round(score, 4) for score in cell.scores]
                        if len(cell.scores) >= calibration.SCORES_ENOUGH or cell.depth == 0
                        else [],
                    }
                    for name, cell in fit.cells.items()
                    if cell.depth < 2 or name in own
                },
            }
            for code, fit in fits.items()
        },
        separators=(",", ":"),
    )


def read(text: str) -> dict[str, Fit]:
    """Fits from JSON text."""
    return {
        code: Fit(
            code=code,
            between=tuple(entry["between"]),
            cells={name: Cell(**{**cell, "scores": tuple(cell["scores"])}) for name, cell in entry["cells"].items()},
        )
        for code, entry in json.loads(text).items()
    }


def factors(fits: Mapping[str, Fit], coverage: float = 0.8) -> list[dict[str, Any]]:
    """Every factor as the contract lists it."""
    rows = []
    for code, fit in fits.items():
        for name, cell in fit.cells.items():
            prediction = fit.predict(_path(fit, name))
            assert prediction is not None
            low, high = prediction.interval(coverage)
            rows.append({"cell": name, "code": code, "factor": prediction.factor, "n": cell.n, "low": low, "high": high})
    return rows


def _path(fit: Fit, name: str) -> list[str]:
    path: list[str] = []
    current: str | None = name
    while current is not None and current != calibration.GLOBAL:
        path.append(current)
        current = fit.cells[current].parent
    return path[::-1]
