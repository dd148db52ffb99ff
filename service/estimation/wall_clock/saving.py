"""How often the job saves, and what one save costs: the chosen interval beside the Young/Daly optimum."""

from __future__ import annotations

from dataclasses import dataclass

from ..items import Basis
from ..numeric import Number, ceil, ceil_divide, maximum, minimum, sqrt
from ..placement import place
from ..run import CheckpointPolicy, Run
from ..spread import Spread, exactly, independently, prior, say, together
from ..storage import NO_ADAPTER_SIZE
from .storage_rate import StorageRate, storage_rate
from .timed_run import TimedRun

# An asynchronous save stops the devices only for the copy to host memory; pinned PCIe 4.0 x16 moves 20-25 GB/s, half with eight
# devices on two switches.
SNAPSHOT_BYTES_PER_SECOND = 10e9

# Where no cadence is given: the optimum, but no trainer saves more often than this (Llama 3 kept over 90 % of its time effective
# at three hours between interruptions, so it lost at most a quarter of an hour to each).
UNSTATED_INTERVAL_SECONDS = 600.0

# Interruptions a device-hour: Llama 3 405B 419 unexpected in 54 days on 16,384 H100 (1 in 50,700 h, arXiv:2407.21783, table 5),
# BLOOM about one a week on 384 A100 (1 in 64,000 h), 10 in 55 days on 504 B200 (1 in 66,000 h, arXiv:2605.09370); Meta's
# research clusters 1 in 8,000-82,000 h (arXiv:2410.21680).
INTERRUPTIONS_PER_DEVICE_HOUR = 1 / 50_000
INTERRUPTIONS_LOW = 1 / 80_000
INTERRUPTIONS_HIGH = 1 / 10_000
# Detect, reschedule and start again: median automatic retry 11 min (arXiv:2605.09370); Llama 3 lost under a tenth of 54 days to
# 466 interruptions, so at most 17 min to each, lost work included; hangs take an hour and more to notice.
RESTART_SECONDS = 900.0
RESTART_SECONDS_LOW = 500.0
RESTART_SECONDS_HIGH = 3600.0

NO_STEPS_FOR_CADENCE = "the cadence is told in steps and their number is not known: sequence_length is not given"
RESTART_PRIOR = "15 min to detect and restart (prior: median automatic retry 11 min, hangs an hour) and the load of a checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The cadence and what each save costs, in seconds; every figure broadcasts over layouts."""

    main_bytes: float  # of one save of the main tier
    storage: StorageRate
    write: Spread  # of one save of the main tier, from the first byte to the last
    snapshot: Number | None  # the copy to host memory; None where saves are synchronous
    saves: Number  # of the main tier
    light_saves: Number  # of the weights-only tier
    interval: Number  # T
    save: Spread  # C
    light_save: Spread  # ... of the weights-only tier
    mean_time_between_interruptions: Number  # M, infinite where no interruption is expected
    optimum: Number  # Young/Daly interval; the whole run where nothing interrupts
    restart: Spread  # R
    rate: Spread  # interruptions a device-hour
    seconds: Spread  # in which the devices stand still for saves of both tiers

    def lost_share(self, interval: Number) -> Number:
        """The share of time that saving and interruptions take at an interval: C/T + (T/2 + R)/M, first order."""
        return self.save.expected / interval + (interval / 2 + self.restart.expected) / self.mean_time_between_interruptions


def why_unknown(timed: TimedRun) -> str | None:
    """Why the cadence cannot be told; None where it can."""
    if timed.checkpoint is None:
        return NO_ADAPTER_SIZE
    if _told_in_steps(timed.run.checkpointing) and (timed.step is None or timed.steps is None):
        return NO_STEPS_FOR_CADENCE
    return None


def _told_in_steps(policy: CheckpointPolicy) -> bool:
    return policy.interval_steps is not None or policy.weights_interval_steps is not None


def interruption_rate(run: Run) -> Spread:
    """Interruptions a device-hour from hardware and software."""
    given = run.reserves.interruptions_per_device_hour
    if given is not None:
        return exactly(given)
    return prior(INTERRUPTIONS_PER_DEVICE_HOUR, INTERRUPTIONS_LOW, INTERRUPTIONS_HIGH, run.interval_coverage)


def interruption_basis(run: Run) -> Basis:
    """What the rate of interruptions rests on."""
    return "prior" if run.reserves.interruptions_per_device_hour is None else "given"


def young_daly(mean_time_between_interruptions: Number, save_seconds: Number) -> Number:
    """The interval that loses least to saving and to rework: sqrt(2 M C) (Young, CACM 17(9), 1974; Daly, FGCS 22(3), 2006)."""
    return sqrt(2.0 * mean_time_between_interruptions * save_seconds)


def figures(timed: TimedRun) -> Saving:
    """The chosen interval beside the optimum; raises ``ValueError`` where :func:`why_unknown` has a reason."""
    if timed.checkpoint is None:
        raise ValueError(NO_ADAPTER_SIZE)
    run, policy, training = timed.run, timed.run.checkpointing, timed.training
    rate = interruption_rate(run)
    between = 3600.0 / (rate.expected * timed.devices) if rate.expected > 0 else float("inf")
    light_bytes = timed.checkpoint.weights
    main_bytes = timed.checkpoint.full if policy.contents == "full" else light_bytes
    storage = storage_rate(timed, main_bytes)
    write, light = storage.seconds(main_bytes), storage.seconds(light_bytes)
    blocked, snapshot = write, None
    if policy.asynchronous:
        ranks = place(run).writers
        snapshot = main_bytes / ranks / SNAPSHOT_BYTES_PER_SECOND
        blocked, light = exactly(snapshot), exactly(light_bytes / ranks / SNAPSHOT_BYTES_PER_SECOND)
    optimum = minimum(young_daly(between, blocked.expected), training.expected) if rate.expected > 0 else training.expected
    interval, saves = _cadence(timed, optimum)
    if policy.asynchronous:
        # A write that takes longer than the interval holds up the next snapshot.
        pairs = ((blocked.expected, write.expected), (blocked.low, write.low), (blocked.high, write.high))
        blocked = Spread(*(maximum(stands, writes - interval) for stands, writes in pairs))
    every = policy.weights_interval_steps
    light_saves = 0 if every is None else ceil_divide(_steps(timed), every)
    return Saving(
        main_bytes=main_bytes,
        storage=storage,
        write=write,
        snapshot=snapshot,
        saves=saves,
        light_saves=light_saves,
        interval=interval,
        save=blocked,
        light_save=light,
        mean_time_between_interruptions=between,
        optimum=optimum,
        restart=_restart(run, write),
        rate=rate,
        seconds=together(blocked.times(saves), light.times(light_saves)),
    )


def _steps(timed: TimedRun) -> Number:
    """Steps of a run whose cadence is told in them (``why_unknown`` has seen to it that their number is known)."""
    if timed.steps is None:
        raise ValueError(NO_STEPS_FOR_CADENCE)
    return timed.steps


def _cadence(timed: TimedRun, optimum: Number) -> tuple[Number, Number]:
    """Seconds between saves, at most the whole run, and their number, at least one."""
    policy, training = timed.run.checkpointing, timed.training.expected
    interval: Number
    saves: Number
    if policy.interval_steps is not None:
        if timed.step is None:
            raise ValueError(NO_STEPS_FOR_CADENCE)
        interval, saves = policy.interval_steps * timed.step.expected, ceil_divide(_steps(timed), policy.interval_steps)
    elif policy.interval_seconds is not None:
        interval, saves = policy.interval_seconds + training * 0, ceil(training / policy.interval_seconds)
    else:
        interval = maximum(optimum, UNSTATED_INTERVAL_SECONDS)
        saves = ceil(training / interval)
    return minimum(interval, training), maximum(saves, 1)


def _restart(run: Run, write: Spread) -> Spread:
    """Seconds to detect an interruption, to restart and to load; a checkpoint loads as fast as it is written."""
    if run.reserves.restart_seconds is not None:
        return exactly(run.reserves.restart_seconds)
    wait = prior(RESTART_SECONDS, RESTART_SECONDS_LOW, RESTART_SECONDS_HIGH, run.interval_coverage)
    load = run.checkpointing.load_seconds
    return independently(wait, write if load is None else exactly(load))


# -- words -------------------------------------------------------------------------------------------------------------
def basis(run: Run, saving: Saving) -> Basis:
    """What the time of saves rests on."""
    return "prior" if saving.storage.basis == "prior" else interruption_basis(run)


def chosen(run: Run) -> str:
    """How the interval was chosen."""
    policy = run.checkpointing
    if policy.interval_steps is not None:
        return f"every {policy.interval_steps} steps, as given"
    if policy.interval_seconds is not None:
        return f"every {policy.interval_seconds:g} s, as given"
    return "no cadence is given: the Young/Daly interval, at least ten minutes; once where the run is shorter"


def formula(saving: Saving) -> str:
    """The time of all saves."""
    main = f"{say(saving.saves)} saves x {say(saving.save.expected)} s"
    return f"{main} + {say(saving.light_saves)} light saves x {say(saving.light_save.expected)} s"


def words(run: Run, saving: Saving) -> tuple[str, ...]:
    """How the interval and the time of a save came about."""
    if saving.snapshot is None:
        waits = f"synchronous: the devices wait {say(saving.write.expected)} s for {saving.main_bytes:.4g} B"
    else:
        waits = f"asynchronous: the devices wait for the copy to host memory alone, {say(saving.snapshot)} s at 10 GB/s a device"
    return chosen(run), saving.storage.words, waits


def restart_words(run: Run) -> str:
    """What a restart takes."""
    given = run.reserves.restart_seconds
    return RESTART_PRIOR if given is None else f"{given:g} s to detect and restart, as given"
