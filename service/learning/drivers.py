"""From measured items to the drivers that are corrected: what each measurement is evidence of; pure.

``time.step`` learns from whatever tells the pace of training. ``time.wall_clock`` learns only what the pace does not
explain: its errors are taken after the step's own, so that one slowness is never corrected twice. Runs whose speed the
caller gave say nothing about predicted speed and keep cells of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.estimation.correction import DRIVERS, Factor

from . import calibration, pooling
from .calibration import Fit, Prediction, RunError

# Best first: a step timed alone, then rates, then totals that steps add up to. The sign turns a rate into a time.
STEP_EVIDENCE: tuple[tuple[str, int], ...] = (
    ("time.step", 1),
    ("throughput.input_tokens_per_second", -1),
    ("throughput.tensor_positions_per_second", -1),
    ("throughput.target_tokens_per_second", -1),
    ("efficiency.mfu", -1),
    ("efficiency.mfu_6nd", -1),
    ("efficiency.mfu_causal", -1),
    ("efficiency.mfu_full_attention", -1),
    ("efficiency.hfu", -1),
    ("time.training", 1),
    ("device_hours.training", 1),
)
CLOCK_EVIDENCE: tuple[tuple[str, int], ...] = (("time.wall_clock", 1), ("device_hours.run", 1))
_SIGN = dict(STEP_EVIDENCE) | dict(CLOCK_EVIDENCE)
_STEP_RANK = {code: rank for rank, (code, _) in enumerate(STEP_EVIDENCE)}
_CLOCK_RANK = {code: rank for rank, (code, _) in enumerate(CLOCK_EVIDENCE)}
STEP, CLOCK = "time.step", "time.wall_clock"
CLOCKS = tuple(_CLOCK_RANK)
DIRECT = tuple(driver for driver in DRIVERS if driver not in (STEP, CLOCK))
LEARNABLE: tuple[str, ...] = (*_STEP_RANK, *_CLOCK_RANK, *DIRECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What decides in which cells a run is."""

    team: str
    cluster: str | None = None
    device: str | None = None
    stack: str | None = None
    method: str | None = None
    model_family: str | None = None
    speed_given: bool = False  # the caller, or a pilot, said how fast it is

    def path(self) -> tuple[str, str, str]:
        """Its cells from wide to narrow."""
        shared = _named(device=self.device, stack=self.stack)
        if self.speed_given:
            shared += ",speed=given"
        place = f"{_named(team=self.team, cluster=self.cluster)},{shared}"
        return shared, place, f"{place},{_named(method=self.method, family=self.model_family)}"


def _named(**values: str | None) -> str:
    """Names and values of a cell; what separates them may not occur inside."""
    return ",".join(f"{key}={(value or '-').translate(_PLAIN)}" for key, value in values.items())


_PLAIN = str.maketrans({",": "_", "=": "_"})


def facts(
    *,
    team: str,
    labels: Mapping[str, str],
    external_id: str | None,
    device: str | None,
    stack: str | None,
    method: str | None,
    model_family: str | None,
    speed_given: bool,
) -> Facts:
    """Facts of a quote. A label ``team`` tells teams behind one key apart; the cluster is the label ``cluster`` or what
    stands before the slash of an external id (``cluster-a/123456``).
    """
    cluster = labels.get("cluster")
    if cluster is None and external_id is not None and "/" in external_id:
        cluster = external_id.partition("/")[0]
    own = labels.get("team")
    return Facts(
        team=team if own is None else f"{team}:{own}",
        cluster=cluster,
        device=device,
        stack=stack,
        method=method,
        model_family=model_family,
        speed_given=speed_given,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One measured item of one run. Evidence is given in the order in which the runs ended."""

    run: str
    code: str
    log_ratio: float  # ln(measured / estimated before any correction), without what the spec's drift explains
    facts: Facts
    training_share: float = 1.0  # of the estimated wall clock


def learn(evidence: Iterable[Evidence], *, half_life_runs: float = calibration.HALF_LIFE_RUNS, with_scores: bool = True) -> dict[str, Fit]:
    """Fit every driver that has evidence."""
    steps: dict[str, Evidence] = {}
    clocks: dict[str, Evidence] = {}
    direct: dict[str, dict[str, Evidence]] = {}
    for entry in evidence:
        if entry.code in _STEP_RANK:
            if not entry.facts.speed_given:
                _better(steps, entry, _STEP_RANK)
        elif entry.code in _CLOCK_RANK:
            _better(clocks, entry, _CLOCK_RANK)
        elif entry.code in DIRECT:
            direct.setdefault(entry.code, {})[entry.run] = entry
    fits: dict[str, Fit] = {}
    if steps:
        observed = [RunError(path=e.facts.path(), log_ratio=_time(e)) for e in steps.values()]
        fits[STEP] = pooling.fit(STEP, observed, half_life_runs=half_life_runs, with_scores=with_scores)
    if clocks:
        beyond = [
            RunError(path=e.facts.path(), log_ratio=_time(e) - _explained(e, steps.get(e.run), fits.get(STEP))) for e in clocks.values()
        ]
        fits[CLOCK] = pooling.fit(CLOCK, beyond, half_life_runs=half_life_runs, with_scores=with_scores)
    for code in DIRECT:
        if code in direct:
            own = [RunError(path=e.facts.path(), log_ratio=e.log_ratio) for e in direct[code].values()]
            fits[code] = pooling.fit(code, own, half_life_runs=half_life_runs, with_scores=with_scores)
    return fits


def _better(kept: dict[str, Evidence], entry: Evidence, rank: Mapping[str, int]) -> None:
    """One piece of evidence a run: the best kind; of a kind the latest, in the latest's place."""
    before = kept.get(entry.run)
    if before is None or rank[entry.code] <= rank[before.code]:
        kept.pop(entry.run, None)
        kept[entry.run] = entry


def _time(entry: Evidence) -> float:
    return _SIGN[entry.code] * entry.log_ratio


def _explained(entry: Evidence, step: Evidence | None, fitted: Fit | None) -> float:
    """What the pace of training explains of a wall clock's error."""
    if step is not None:
        return through_training(_time(step), entry.training_share)
    if fitted is None or entry.facts.speed_given:
        return 0.0
    predicted = fitted.predict(entry.facts.path())
    return 0.0 if predicted is None else through_training(math.log(predicted.factor), entry.training_share)


def through_training(log_factor: float, share: float) -> float:
    """The log factor of a whole of which only ``share`` is multiplied."""
    return math.log1p(share * math.expm1(min(log_factor, 50.0)))


def predictions(fits: Mapping[str, Fit], run: Facts) -> dict[str, Prediction]:
    """What is corrected for a run, by driver."""
    path = run.path()
    found = {code: fit.predict(path) for code, fit in fits.items() if not (code == STEP and run.speed_given)}
    return {code: prediction for code, prediction in found.items() if prediction is not None}


def corrections(fits: Mapping[str, Fit], run: Facts, coverage: float) -> dict[str, Factor]:
    """The corrections of a run as the core takes them, with intervals of the coverage."""
    result = {}
    for code, prediction in predictions(fits, run).items():
        low, high = prediction.interval(coverage)
        result[code] = Factor(code=code, factor=prediction.factor, n=prediction.n, low=low, high=high, cell=prediction.cell)
    return result


def log_correction(fits: Mapping[str, Fit], code: str, run: Facts, training_share: float = 1.0) -> float:
    """By how much (log) the estimate of a measured item is corrected; 0 where nothing is known."""
    found = predictions(fits, run)
    if code in _STEP_RANK:
        return _SIGN[code] * math.log(found[STEP].factor) if STEP in found else 0.0
    if code in _CLOCK_RANK:
        step = through_training(math.log(found[STEP].factor), training_share) if STEP in found else 0.0
        return step + (math.log(found[CLOCK].factor) if CLOCK in found else 0.0)
    return math.log(found[code].factor) if code in found else 0.0


def codes_behind(code: str) -> Sequence[str]:
    """Every measured code that the correction of this one may learn from."""
    if code in _STEP_RANK:
        return tuple(_STEP_RANK)
    if code in _CLOCK_RANK:
        return (*_STEP_RANK, *_CLOCK_RANK)
    return (code,)
