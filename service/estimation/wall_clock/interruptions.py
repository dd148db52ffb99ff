"""Time lost to interruptions by cause: lost work and restarts of hardware and software faults, rollbacks of loss spikes."""

from __future__ import annotations

from dataclasses import dataclass

from ..numeric import Number, maximum, minimum, sqrt, where
from ..run import Run
from ..spread import Spread, exactly, prior
from .saving import Saving, restart_words
from .timed_run import TimedRun

# Causes of Llama 3's 419 interruptions (arXiv:2407.21783, table 5): faulty GPUs, memory, host and network hardware, and the
# rest in software.
HARDWARE_SHARE = 0.78
SOFTWARE_SHARE = 1 - HARDWARE_SHARE
# Loss spikes that were rolled back: PaLM 540B about 20 in 8.4 million chip-hours, about 100 steps back and 200-500 batches
# skipped (arXiv:2204.02311, section 5.1); Llama 3 405B none in 30.84 million (arXiv:2407.21783, section 3.4.1), DeepSeek-V3
# none in 2.66 million (arXiv:2412.19437). Only pretraining is charged for them.
SPIKES_PER_DEVICE_HOUR = 20 / (8.4e6 + 30.84e6 + 2.664e6)
SPIKES_HIGH = 20 / 8.4e6
SPIKE_STEPS = 100 + 350
TYPICAL_BATCH_TOKENS = 4e6  # the batch of PaLM, LLaMA and Llama 2 at size

_LOST = "busy x x / (1 - x), x = (interval / 2 + restart) / time between interruptions"
HARDWARE_FORMULA = f"{HARDWARE_SHARE} x " + _LOST
SOFTWARE_FORMULA = f"{SOFTWARE_SHARE:.2f} x " + _LOST
SPIKES_FORMULA = "spikes x (450 steps + restart)"
PRIOR_RATE = "1 interruption in 50,000 device-hours (80 %: 1 in 80,000 to 1 in 10,000; Llama 3, BLOOM, 504 x B200, Meta's clusters)"
BY_CAUSE = "by cause as Llama 3's table 5: 78 % hardware (devices, memory, hosts, network), the rest software"
SPIKES_CHARGED = (
    "20 rollbacks in the 42 million device-hours of PaLM 540B, Llama 3 405B and DeepSeek-V3, each 100 steps back and 350 skipped"
)
NO_SPIKES_GIVEN_RATE = "not charged: the given rate covers every cause"
NO_SPIKES_UNPUBLISHED = "not charged: no published rate outside pretraining"
ASSUMED_STEP = "steps of 4 million tokens are assumed: their number is not known"
UNKNOWN_STEP = "the time of a step is not known: a spike is charged its restart alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """Interruptions of the whole run and the seconds they cost, by cause."""

    interruptions: Spread  # hardware and software, whole run
    spikes: Spread
    hardware: Spread
    software: Spread
    loss_spikes: Spread
    progress: Number  # share of its time that the job does not lose to interruptions; none left at 0

    @property
    def seconds(self) -> Number:
        """All causes together, in the order of their sum."""
        return 0.0 + self.hardware.expected + self.software.expected + self.loss_spikes.expected


def figures(timed: TimedRun, saving: Saving, busy: Spread) -> Restarts:
    """What the job loses, ``busy`` being the seconds in which it can be interrupted.

    An interruption loses half the saving interval and the restart. With x the share so lost of the time between two
    interruptions, the job takes busy / (1 - x): what is redone can be interrupted again.
    """
    devices = timed.devices

    def lost(rate: Number, restart: Number, seconds: Number) -> tuple[Number, Number]:
        share = rate * devices / 3600.0 * (saving.interval / 2 + restart)
        left = 1.0 - share
        return seconds * share / maximum(left, 1e-3), left

    rate, restart = saving.rate, saving.restart
    expected, progress = lost(rate.expected, restart.expected, busy.expected)

    def distance(moved_rate: Number, moved_restart: Number, moved_busy: Number) -> Number:
        # Rate, restart and busy time err independently: each is moved alone, the distances add up as root sums of squares.
        moved = (
            lost(moved_rate, restart.expected, busy.expected)[0],
            lost(rate.expected, moved_restart, busy.expected)[0],
            lost(rate.expected, restart.expected, moved_busy)[0],
        )
        squares: Number = 0.0
        for value in moved:
            squares = squares + (value - expected) * (value - expected)
        return sqrt(squares)

    below = maximum(expected - distance(rate.low, restart.low, busy.low), 0.0)
    faults = Spread(expected, below, expected + distance(rate.high, restart.high, busy.high))
    busy_hours = devices / 3600.0 * busy.expected
    often = SPIKES_PER_DEVICE_HOUR if spikes_charged(timed.run) else 0.0
    most = SPIKES_HIGH if spikes_charged(timed.run) else 0.0
    spikes = prior(often, 0.0, most, timed.run.interval_coverage).times(busy_hours)
    thrown_back = spikes.times(SPIKE_STEPS * _step(timed).expected + restart.expected)
    # A run shorter than the steps that a spike throws back cannot lose more than itself.
    bounded = (minimum(seconds, busy.expected) for seconds in (thrown_back.expected, thrown_back.low, thrown_back.high))
    return Restarts(
        interruptions=rate.times(busy_hours),
        spikes=spikes,
        hardware=faults.times(HARDWARE_SHARE),
        software=faults.times(SOFTWARE_SHARE),
        loss_spikes=Spread(*bounded),
        progress=where(progress > 0, progress, 0.0),
    )


def spikes_charged(run: Run) -> bool:
    """Whether loss spikes are set aside for: in pretraining, unless a given rate covers every cause."""
    return run.method.objective == "pretrain" and run.reserves.interruptions_per_device_hour is None


def _step(timed: TimedRun) -> Spread:
    """Seconds of a step; where their number is not known those of a typical batch, for what a spike throws back alone."""
    if timed.step is not None:
        return timed.step
    tokens = timed.workload.input_tokens
    return timed.training.times(minimum(TYPICAL_BATCH_TOKENS / tokens, 1.0)) if tokens else exactly(0.0)


# -- words -------------------------------------------------------------------------------------------------------------
def rate_words(run: Run) -> str:
    """How often a job is interrupted."""
    given = run.reserves.interruptions_per_device_hour
    return PRIOR_RATE if given is None else f"{given:.4g} interruptions a device-hour, as given"


def fault_words(run: Run) -> tuple[str, ...]:
    """What the time lost to hardware and software faults rests on."""
    return rate_words(run), restart_words(run), BY_CAUSE


def spike_words(timed: TimedRun) -> tuple[str, ...]:
    """What the time lost to loss spikes rests on."""
    if spikes_charged(timed.run):
        if timed.step is not None:
            return (SPIKES_CHARGED,)
        return SPIKES_CHARGED, ASSUMED_STEP if timed.workload.input_tokens else UNKNOWN_STEP
    return (NO_SPIKES_UNPUBLISHED if timed.run.reserves.interruptions_per_device_hour is None else NO_SPIKES_GIVEN_RATE,)
