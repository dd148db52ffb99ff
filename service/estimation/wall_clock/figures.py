"""The parts of the wall clock put together: the same sum for one quote and for every layout of a search, corrections included."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..correction import Factor
from ..numeric import Number, anywhere, maximum, where
from ..spread import Spread, exactly, together
from . import data_loading, evaluation, interruptions, saving, start_up
from .data_loading import DataStall
from .evaluation import EvaluationTime
from .interruptions import Restarts
from .saving import Saving
from .start_up import START_UP_RANGE, StartUp
from .timed_run import TimedRun

BESIDE_TRAINING = ("startup", "checkpointing", "evaluation", "data_stall", "restarts")
PARTS = ("startup", "training", *BESIDE_TRAINING[1:])  # in the order of every sum


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock:
    """Seconds of the whole job by part, before what own actuals of whole jobs make of them (``beside_scale``)."""

    start_up: StartUp
    training: Spread
    saving: Saving | None  # None where ``why_no_saving`` says why
    why_no_saving: str
    evaluation: EvaluationTime
    data_stall: DataStall
    restarts: Restarts | None  # None where saving is
    # What everything beside training is multiplied with; None without such actuals, or where a part is not known.
    beside_scale: Number | None

    def unscaled(self) -> dict[str, Number | None]:
        """Expected seconds by part, as the formulas give them; None where a part is not known."""
        tested = self.evaluation.seconds
        return {
            "startup": self.start_up.seconds.expected,
            "training": self.training.expected,
            "checkpointing": None if self.saving is None else self.saving.seconds.expected,
            "evaluation": None if tested is None else tested.expected,
            "data_stall": self.data_stall.seconds.expected,
            "restarts": None if self.restarts is None else self.restarts.seconds,
        }

    @property
    def seconds(self) -> Number | None:
        """The expected ``time.wall_clock``; None where a part is not known, infinite where a layout never recovers."""
        result: Number = 0.0
        for name, value in self.unscaled().items():
            if value is None or self.restarts is None:
                return None
            scale = None if name == "training" else self.beside_scale
            result = result + (value if scale is None else value * scale)
        return None if self.restarts is None else where(self.restarts.progress > 0, result, float("inf"))


def figures(timed: TimedRun, whole_jobs: Factor | None = None) -> WallClock:
    """Every part of the job. ``whole_jobs`` is what own actuals say whole jobs take over what their parts add up to."""
    why = saving.why_unknown(timed)
    cadence = saving.figures(timed) if why is None else None
    tested = evaluation.figures(timed)
    stall = data_loading.figures(timed)
    lost = None
    if cadence is not None:
        busy = together(timed.training, cadence.seconds, tested.seconds or exactly(0.0), stall.seconds)
        lost = interruptions.figures(timed, cadence, busy)
    clock = WallClock(
        start_up=start_up.figures(timed),
        training=timed.training,
        saving=cadence,
        why_no_saving=why or "",
        evaluation=tested,
        data_stall=stall,
        restarts=lost,
        beside_scale=None,
    )
    return clock if whole_jobs is None else _calibrated(clock, whole_jobs.factor)


def _calibrated(clock: WallClock, factor: float) -> WallClock:
    """The parts beside training scaled until the whole is ``factor`` times what its parts add up to, as far as it goes."""
    values = clock.unscaled()
    beside: Number = 0
    for name in BESIDE_TRAINING:
        value = values[name]
        if value is None:
            return clock
        beside = beside + value
    if clock.restarts is None or not anywhere(clock.restarts.progress > 0) or not anywhere(beside > 0):
        return clock
    scale = beside_training(factor, clock.training.expected, beside) / beside
    return replace(clock, beside_scale=scale)


def beside_training(factor: float, training: Number, beside: Number) -> Number:
    """Seconds beside training once own actuals say that the whole takes ``factor`` times as long.

    A whole shorter than its training alone says that the steps are faster, not that launching and saving took no time: no part
    falls below the least share that the prior of start-up allows.
    """
    return maximum(factor * (training + beside) - training, START_UP_RANGE[0] * beside)
