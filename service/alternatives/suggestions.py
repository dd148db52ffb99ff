"""Alternatives of a quote that does not fit, as its document lists them."""

from __future__ import annotations

from dataclasses import replace

from service.estimation.correction import Corrections
from service.estimation.estimate import training_device_hours
from service.estimation.run import Efficiency, Run
from service.specs.resolve import Resolved

from .search import Offer, alternatives
from .trials import Trials

NO_PEAK = "changes are searched for by their peak, which is not known here: give sequence_length and a model whose shape is known"


def suggestions(resolved: Resolved, fits: bool | str | None, corrections: Corrections) -> Offer:
    """Changes that make the run fit, with their device-hours, or why there are none; nothing where it fits or that cannot be said."""
    if fits is True or fits is None:
        return Offer([])
    trials = Trials.of(resolved, corrections)
    own = trials.tried(trials.run)
    if own is None:
        return Offer([], NO_PEAK)

    def hours(run: Run) -> float | None:
        # Predicted on both sides: an efficiency that the caller gave holds for the run as it is, not for a changed one.
        return training_device_hours(replace(run, efficiency=Efficiency()), corrections)

    return alternatives(trials.run, own.peak, trials, hours)
