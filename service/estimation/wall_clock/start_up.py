"""From the start of the job to the first steady step: launch, load, compile."""

from __future__ import annotations

from dataclasses import dataclass

from ..run import Run
from ..spread import Spread, exactly, independently, multiples
from .storage_rate import StorageRate, storage_rate
from .timed_run import TimedRun

# Interpreter, imports, rendezvous and communicators. MegaScale (arXiv:2402.15627, section 3.5) measured 1,047 s for the
# communicators of 2,048 devices before mending them and under 5 s after; a job of one node starts in about a minute.
LAUNCH_SECONDS = 60.0
LAUNCH_SECONDS_PER_NODE = 0.5
COMPILE_SECONDS = 90.0  # torch.compile of one block shape, forward and backward, and the graphs of the optimizer
WARM_UP_SECONDS = 15.0  # first steps without compilation: autotuning, allocator, caches
START_UP_RANGE = (1 / 3, 4.0)

FORMULA = "launch + load + compile or warm up"
NOTHING_LOADED = "pretraining starts from random weights: nothing is loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """Seconds before the first steady step, and what they are made of."""

    seconds: Spread
    launch_seconds: float
    first_steps_seconds: float  # compilation, or steps that warm up
    loaded_bytes: float | None = None  # read from storage; None where nothing is, or where the caller gave the seconds
    storage: StorageRate | None = None


def figures(timed: TimedRun) -> StartUp:
    """Launch, the load of the weights and the first steps; they err independently."""
    run, (low, high) = timed.run, START_UP_RANGE
    launch = LAUNCH_SECONDS + LAUNCH_SECONDS_PER_NODE * timed.nodes
    first = COMPILE_SECONDS if run.software.compile else WARM_UP_SECONDS
    parts = [multiples(seconds, low, high, run.interval_coverage) for seconds in (launch, first)]
    loaded, storage = None, None
    if run.checkpointing.load_seconds is not None:
        parts.append(exactly(run.checkpointing.load_seconds))
    elif not starts_from_nothing(run):
        loaded = _loaded_bytes(timed)
        storage = storage_rate(timed, loaded)
        parts.append(storage.seconds(loaded))
    return StartUp(seconds=independently(*parts), launch_seconds=launch, first_steps_seconds=first, loaded_bytes=loaded, storage=storage)


def words(run: Run, start: StartUp) -> tuple[str, ...]:
    """How the seconds came about."""
    first = "compilation" if run.software.compile else "first steps"
    begun = f"launch and communicators {start.launch_seconds:.4g} s, {first} {start.first_steps_seconds:.4g} s (prior)"
    if run.checkpointing.load_seconds is not None:
        return begun, f"load {run.checkpointing.load_seconds:.4g} s, as given"
    if start.loaded_bytes is None or start.storage is None:
        return begun, NOTHING_LOADED
    return begun, f"load {start.loaded_bytes:.4g} B of weights; {start.storage.words}"


def starts_from_nothing(run: Run) -> bool:
    """Whether the weights are drawn at random."""
    return run.method.objective == "pretrain" and run.method.kind == "full"


def _loaded_bytes(timed: TimedRun) -> float:
    """Bytes of the bf16 file that a run starts from; under adapters that of the frozen base."""
    if timed.run.method.adapters or timed.checkpoint is None:
        return float(timed.parameters.total) * 2
    return timed.checkpoint.export
