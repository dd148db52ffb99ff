"""Time the devices wait for data: where the pipeline is slower than they eat."""

from __future__ import annotations

from dataclasses import dataclass

from ..items import Basis
from ..numeric import Number, maximum
from ..run import Run
from ..spread import Spread, exactly, say
from .timed_run import TimedRun

FORMULA = "max(0, input tokens / pipeline rate - training)"
KEEPS_UP = "data_pipeline.input_tokens_per_second is not given: the pipeline is taken to keep up with the devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataStall:
    """Seconds of waiting, and the tokens per second that training reads; None where the pipeline's rate is not given."""

    seconds: Spread
    read_per_second: Number | None


def figures(timed: TimedRun) -> DataStall:
    """Loading overlaps with training: only what takes longer than all of it is waited for."""
    rate, tokens, training = timed.run.data_pipeline.input_tokens_per_second, timed.workload.input_tokens, timed.training
    if rate is None or tokens is None:
        return DataStall(seconds=exactly(training.expected * 0), read_per_second=None)
    needed = tokens / rate
    waits = (maximum(needed - time, 0.0) for time in (training.expected, training.high, training.low))
    return DataStall(seconds=Spread(*waits), read_per_second=tokens / training.expected)


def words(run: Run, stall: DataStall) -> tuple[Basis, tuple[str, ...]]:
    """What the wait rests on, and how it came about."""
    if stall.read_per_second is None:
        return "prior", (KEEPS_UP,)
    rate = run.data_pipeline.input_tokens_per_second
    said = f"the pipeline gives {rate:.4g} input tokens/s, the devices eat {say(stall.read_per_second)}; loading overlaps with training"
    return "given", (said,)
