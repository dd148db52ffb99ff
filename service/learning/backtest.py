"""History replayed in order: what each quote would have said, had the engine known what was measured before it; pure.

A run is predicted when it was quoted and known when it ended. Three engines are compared: the formulas alone
(``uncalibrated``), with the correction fitted to all that was known (``calibrated``), and no engine at all: the measured
value of the team's last similar run (``last_similar``: the same cell, an estimate within a factor of two).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import drivers
from .calibration import HALF_LIFE_RUNS, Fit
from .drivers import Evidence
from .statistics import Summary, Verdict, summarise

ENGINES = ("uncalibrated", "calibrated", "last_similar")
SIMILAR = math.log(2)  # how far two estimates of similar runs may lie apart
REFIT_SHARE = 0.02  # corrections are fitted anew when this share of what is known has come since: as a service would


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A measured item of history."""

    evidence: Evidence
    log_estimate: float  # ln of the estimate before any correction
    log_error: float  # ln(measured / that estimate), drift of the spec included
    quoted_at: float  # seconds; the run is known from ended_at on
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How one engine would have done for one code. ``common_*``: over the runs that every engine could predict."""

    engine: str
    code: str
    summary: Summary
    common: Summary | None


def replay(history: Iterable[Past], *, half_life_runs: float = HALF_LIFE_RUNS, refit_share: float = REFIT_SHARE) -> list[Line]:
    """Predict every run of history from those that ended before it was quoted."""
    past = list(history)
    # A run that was recorded afterwards (quoted after it had ended) is predicted as of its end.
    asked = sorted(range(len(past)), key=lambda i: (min(past[i].quoted_at, past[i].ended_at), past[i].ended_at, i))
    ended = sorted(range(len(past)), key=lambda i: (past[i].ended_at, i))
    errors: dict[str, dict[str, dict[int, float]]] = {}
    fits: dict[str, Fit] = {}
    known: list[Evidence] = []
    fitted_at = 0
    latest: dict[tuple[str, str], list[Past]] = {}
    done = 0
    for index in asked:
        run = past[index]
        moment = min(run.quoted_at, run.ended_at)
        while done < len(ended) and past[ended[done]].ended_at < moment:
            entry = past[ended[done]]
            known.append(entry.evidence)
            latest.setdefault((entry.evidence.code, entry.evidence.facts.path()[-1]), []).append(entry)
            done += 1
        if len(known) - fitted_at >= max(1.0, refit_share * fitted_at) and len(known) > fitted_at:
            fits = drivers.learn(known, half_life_runs=half_life_runs, with_scores=False)
            fitted_at = len(known)
        code = run.evidence.code
        lines = errors.setdefault(code, {engine: {} for engine in ENGINES})
        lines["uncalibrated"][index] = run.log_error
        correction = drivers.log_correction(fits, code, run.evidence.facts, run.evidence.training_share)
        lines["calibrated"][index] = run.log_error - correction
        similar = _last_similar(run, latest.get((code, run.evidence.facts.path()[-1]), ()))
        if similar is not None:
            lines["last_similar"][index] = run.log_estimate + run.log_error - similar.log_estimate - similar.log_error
    return [line for code in sorted(errors) for line in _lines(code, errors[code])]


def _last_similar(run: Past, candidates: Sequence[Past]) -> Past | None:
    for candidate in reversed(candidates):
        if abs(candidate.log_estimate - run.log_estimate) <= SIMILAR and candidate.evidence.run != run.evidence.run:
            return candidate
    return None


def _lines(code: str, errors: dict[str, dict[int, float]]) -> Iterable[Line]:
    common = set.intersection(*(set(of_engine) for of_engine in errors.values()))
    for engine in ENGINES:
        summary = summarise(Verdict(code=code, log_ratio=error) for error in errors[engine].values())
        if summary is not None:
            shared = summarise(Verdict(code=code, log_ratio=errors[engine][index]) for index in sorted(common))
            yield Line(engine=engine, code=code, summary=summary, common=shared)
