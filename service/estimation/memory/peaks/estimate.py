"""The memory of a run: figures, the items that describe them, what is live in each phase, and whether it fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...correction import Corrections
from ...items import Item
from ...parameters import Parameters
from ...placement import place
from ...run import Run
from ..blocks.kept import saved_bytes_per_layer
from ..blocks.trained_model import trained_model
from ..timeline.moment import Moment, Parts
from .figures import NONE, Figures, Fits, corrected, factors_of, fits, fits_states_alone
from .items import Quoted, items, items_without_shape, sum_of_states
from .worst import worst_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Memory of the worst device."""

    items: list[Item]
    figures: Figures | None = None  # None where the model's shape or the sequence length is not known, like all that follows
    phases: tuple[dict[str, Any], ...] = ()
    saved_bytes_per_layer: list[int] | None = None
    peak_phase: str | None = None
    peak_stage: int | None = None
    fits: Fits = None


def estimate(run: Run, parameters: Parameters, corrections: Corrections = NONE) -> MemoryEstimate:
    """The memory of a run with one layout."""
    model = trained_model(run)
    if model is None:
        known = items_without_shape(run, parameters)
        return MemoryEstimate(items=known, fits=fits_states_alone(run, sum_of_states(known)))
    placed = place(run)
    found, shown = worst_shown(run, model, placed)
    factors = factors_of(corrections)
    figures = corrected(run, model, found, factors)
    plain = corrected(run, model, found, {}) if factors else figures
    return MemoryEstimate(
        items=items(Quoted(run=run, model=model, placed=placed, figures=figures, plain=plain, corrections=corrections, peak=shown.peak)),
        figures=figures,
        phases=tuple(_document(moment) for moment in shown.phases),
        saved_bytes_per_layer=saved_bytes_per_layer(model, placed),
        peak_phase=shown.peak.phase,
        peak_stage=int(shown.peak.stage),
        fits=fits(run, figures.process),
    )


def _document(moment: Moment) -> dict[str, Any]:
    """A moment as an answer shows it."""
    parts = dict(zip(Parts._fields, map(float, moment.parts), strict=True))
    return {"phase": moment.phase, "pipeline_stage": int(moment.stage), "allocated_bytes": float(moment.allocated), "parts": parts}
