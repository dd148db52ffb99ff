"""A short turn of `python -m tests.faults`, and whether its count would notice what it is there to notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL

from service.kit import migration
from service.kit.database import Database
from service.kit.security import DEFAULT_CALLER
from service.quotes import issuing, repository
from tests.faults import places, scenarios
from tests.faults.places import Place
from tests.faults.scenarios import Outcome, Scenario
from tests.faults.writers import Tally, named

SHORT = (
    Scenario(name="SIGTERM under load", database="sqlite", fault=scenarios.stop_under_load),
    Scenario(name="kill -9 of one of two workers", database="postgresql", fault=scenarios.kill_worker, workers=2),
)


@pytest.mark.parametrize("scenario", SHORT, ids=lambda scenario: scenario.name)
def test_every_acknowledged_write_is_stored_once(scenario: Scenario, postgresql_server: object) -> None:
    outcome = Outcome(scenario)
    scenarios.play(scenario, outcome, writes=15)
    assert outcome.acknowledged >= 30
    assert (outcome.stored, outcome.doubled, outcome.lost, outcome.given_up) == (outcome.acknowledged, 0, 0, 0)


def test_the_count_notices_what_is_lost_doubled_and_stored_under_another_id(tmp_path: Path) -> None:
    place = Place(URL.create("sqlite", database=str(tmp_path / "counted.db")), tmp_path)
    migration.upgrade(place.url)
    database = Database(place.url)
    ids = []
    with database.write() as work:
        for name in ("once", "twice", "twice", "under another id"):
            new = issuing.price(database, DEFAULT_CALLER, named(name)).to_store(DEFAULT_CALLER)
            repository.add(work.connection, [new])
            ids.append(new.id)
        work.commit()
    database.close()
    tally = Tally(acknowledged={"once": ids[0], "twice": ids[1], "under another id": ids[0], "never stored": "", "of a batch": ""})
    counted = places.audit(place, tally)
    assert (counted.acknowledged, counted.stored, counted.doubled, counted.lost) == (5, 4, 1, 3)
