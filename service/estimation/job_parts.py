"""The parts of a job's wall clock beside pure training, one function each; layouts broadcast."""

from __future__ import annotations

from dataclasses import dataclass

from .items import Basis
from .numeric import Number, ceil, ceil_divide, maximum, minimum, sqrt, where
from .placement import place
from .run import Hardware, Run
from .spread import Spread, exactly, independently, multiples, prior, say, together

# Writing 2.3 TB in 40 s from 48 nodes: 1.2 GB/s a node (BLOOM-176B on Jean Zay, bigscience chronicles, tr11-176B). Network
# disks of small clusters reach a third of it, a parallel file system on flash four times as much (Llama 3: 2 TB/s sustained from
# 2,000 nodes, arXiv:2407.21783, section 3.3.1).
STORAGE_BYTES_PER_SECOND_PER_NODE = 1.2e9
STORAGE_SPEED_RANGE = (0.25, 4.0)
# An asynchronous save stops the devices only for the copy to host memory; pinned PCIe 4.0 x16 moves 20-25 GB/s, half with eight
# devices on two switches.
SNAPSHOT_BYTES_PER_SECOND = 10e9

# Where no cadence is given: the optimum, but no trainer saves more often than this (Llama 3 kept over 90 % of its time effective
# at three hours between interruptions, so it lost at most a quarter of an hour to each).
UNSTATED_INTERVAL_SECONDS = 600.0

# Start-up: interpreter, imports, rendezvous and communicators. MegaScale (arXiv:2402.15627, section 3.5) measured 1,047 s for the
# communicators of 2,048 devices before mending them and under 5 s after; a job of one node starts in about a minute.
LAUNCH_SECONDS = 60.0
LAUNCH_SECONDS_PER_NODE = 0.5
COMPILE_SECONDS = 90.0  # torch.compile of one block shape, forward and backward, and the graphs of the optimizer
WARM_UP_SECONDS = 15.0  # first steps without compilation: autotuning, allocator, caches
START_UP_RANGE = (1 / 3, 4.0)

# Interruptions a device-hour: Llama 3 405B 419 unexpected in 54 days on 16,384 H100 (1 in 50,700 h, arXiv:2407.21783, table 5),
# BLOOM about one a week on 384 A100 (1 in 64,000 h), 10 in 55 days on 504 B200 (1 in 66,000 h, arXiv:2605.09370); Meta's research
# clusters 1 in 8,000-82,000 h (arXiv:2410.21680).
INTERRUPTIONS_PER_DEVICE_HOUR = 1 / 50_000
INTERRUPTIONS_LOW = 1 / 80_000
INTERRUPTIONS_HIGH = 1 / 10_000
# Causes of the 419 (the same table): faulty GPUs, memory, host and network hardware, and the rest in software.
HARDWARE_SHARE = 0.78
SOFTWARE_SHARE = 1 - HARDWARE_SHARE
# Loss spikes that were rolled back: PaLM 540B about 20 in 8.4 million chip-hours, about 100 steps back and 200-500 batches skipped
# (arXiv:2204.02311, section 5.1); Llama 3 405B none in 30.84 million (arXiv:2407.21783, section 3.4.1), DeepSeek-V3 none in 2.66
# million (arXiv:2412.19437). Only pretraining is charged for them.
SPIKES_PER_DEVICE_HOUR = 20 / (8.4e6 + 30.84e6 + 2.664e6)
SPIKES_HIGH = 20 / 8.4e6
SPIKE_STEPS = 100 + 350
TYPICAL_BATCH_TOKENS = 4e6  # the batch of PaLM, LLaMA and Llama 2 at size
# Detect, reschedule and start again: median automatic retry 11 min (arXiv:2605.09370); Llama 3 lost under a tenth of 54 days to 466
# interruptions, so at most 17 min to each, lost work included; hangs take an hour and more to notice.
RESTART_SECONDS = 900.0
RESTART_SECONDS_LOW = 500.0
RESTART_SECONDS_HIGH = 3600.0
# Benchmarks time steady steps on quiet machines; whole runs are booked by their clock. What published runs took over the quote of
# their predicted steps, beyond the steps' own interval (80 %): with it, 17 of the 22 runs of tests/cases/measured_public.jsonl
# lie inside (77 %), and 8 of the 9 whose layout was not assumed; without it, 10 and 3.
WHOLE_RUN_RANGE = (0.85, 1.3)


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of one part of the job, and how they came about."""

    seconds: Spread
    formula: str
    assumptions: tuple[str, ...] = ()
    basis: Basis = "formula"


def nodes(hardware: Hardware) -> int:
    """Nodes the job holds."""
    return -(-hardware.device_count // max(hardware.devices_per_node, 1))


def storage_rate(run: Run, amount: float = 0.0) -> tuple[Spread, str, Basis]:
    """Bytes per second to and from storage for that many bytes, all ranks together."""
    assert run.hardware is not None
    given = run.checkpointing.storage_bytes_per_second
    if given is not None:
        return exactly(given), f"storage takes {given:.4g} B/s, as given", "given"
    ranks = place(run).writers
    # A layout that cannot hold these bytes (none was stated, most likely) is warned of; the job is then timed as one that is
    # sharded over all its nodes, since no run saves from devices that its model does not fit.
    impossible = (0.0 if run.software.cpu_offload else amount) > ranks * float(run.hardware.device.memory_bytes)
    holding = ceil_divide(ranks, max(run.hardware.devices_per_node, 1))
    writers = minimum(where(impossible, nodes(run.hardware), holding), nodes(run.hardware))
    rate = STORAGE_BYTES_PER_SECOND_PER_NODE * maximum(writers, 1)
    low, high = STORAGE_SPEED_RANGE
    return (
        multiples(rate, low, high, run.interval_coverage),
        f"storage takes {say(rate)} B/s: 1.2 GB/s from each of {say(writers)} writing node(s) (BLOOM-176B: 2.3 TB in 40 s from 48 nodes)",
        "prior",
    )


def _seconds_of(amount: float, rate: Spread) -> Spread:
    """The time an amount takes at a rate: the slow rate makes the long time."""
    return Spread(amount / rate.expected, amount / rate.high, amount / rate.low)


def startup(run: Run, weight_bytes: float | None) -> Timed:
    """From the start of the job to the first steady step: launch, load, compile."""
    assert run.hardware is not None
    low, high = START_UP_RANGE
    launch = LAUNCH_SECONDS + LAUNCH_SECONDS_PER_NODE * nodes(run.hardware)
    first = COMPILE_SECONDS if run.software.compile else WARM_UP_SECONDS
    parts = [multiples(s, low, high, run.interval_coverage) for s in (launch, first)]
    said = [f"launch and communicators {launch:.4g} s, {'compilation' if run.software.compile else 'first steps'} {first:.4g} s (prior)"]
    if run.checkpointing.load_seconds is not None:
        parts.append(exactly(run.checkpointing.load_seconds))
        said.append(f"load {run.checkpointing.load_seconds:.4g} s, as given")
    elif run.method.objective == "pretrain" and run.method.kind == "full":
        said.append("pretraining starts from random weights: nothing is loaded")
    elif weight_bytes is None:
        said.append("the bytes to load are not known and left out")
    else:
        rate, word, _ = storage_rate(run, weight_bytes)
        parts.append(_seconds_of(weight_bytes, rate))
        said.append(f"load {weight_bytes:.4g} B of weights; {word}")
    return Timed(
        independently(*parts),
        "launch + load + compile or warm up",
        tuple(said),
        "prior",
    )


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often the job saves, and what one save costs; seconds."""

    saves: Number  # of the main tier
    light_saves: Number  # of the weights-only tier
    interval: Number  # seconds between saves of the main tier
    save: Spread  # seconds the devices stand still for one
    light_save: Spread
    mean_time_between_interruptions: Number  # infinite where none is expected
    optimum: Number  # Young/Daly interval; the whole run where nothing interrupts
    restart: Spread  # seconds to detect, restart and load
    rate: Spread  # interruptions a device-hour
    chosen: str
    assumptions: tuple[str, ...]
    basis: Basis


def interruption_rate(run: Run) -> tuple[Spread, Basis]:
    """Interruptions a device-hour from hardware and software."""
    given = run.reserves.interruptions_per_device_hour
    if given is not None:
        return exactly(given), "given"
    return prior(
        INTERRUPTIONS_PER_DEVICE_HOUR,
        INTERRUPTIONS_LOW,
        INTERRUPTIONS_HIGH,
        run.interval_coverage,
    ), "prior"


def young_daly(mean_time_between_interruptions: Number, save_seconds: Number) -> Number:
    """The interval that loses least to saving and to rework: sqrt(2 M C) (Young, CACM 17(9), 1974; Daly, FGCS 22(3), 2006)."""
    return sqrt(2.0 * mean_time_between_interruptions * save_seconds)


def needs_steps(run: Run) -> bool:
    """Whether the cadence is told in steps, so that nothing is known of it without their number."""
    return run.checkpointing.interval_steps is not None or run.checkpointing.weights_interval_steps is not None


def cadence(run: Run, steps: Number | None, step: Spread | None, training: Spread, full_bytes: float, light_bytes: float) -> Cadence:
    """The chosen saving interval beside the Young/Daly optimum; the steps may be unknown unless :func:`needs_steps`."""
    assert run.hardware is not None
    policy = run.checkpointing
    devices = float(run.hardware.device_count)
    per_hour, rate_basis = interruption_rate(run)
    between = 3600.0 / (per_hour.expected * devices) if per_hour.expected > 0 else float("inf")
    main_bytes = full_bytes if policy.contents == "full" else light_bytes
    storage, word, storage_basis = storage_rate(run, main_bytes)
    write = _seconds_of(main_bytes, storage)
    light_write = _seconds_of(light_bytes, storage)
    said = [word]
    if policy.asynchronous:
        snapshot = main_bytes / place(run).writers / SNAPSHOT_BYTES_PER_SECOND
        light_snapshot = light_bytes / place(run).writers / SNAPSHOT_BYTES_PER_SECOND
        blocked, light = exactly(snapshot), exactly(light_snapshot)
        said.append(f"asynchronous: the devices wait for the copy to host memory alone, {say(snapshot)} s at 10 GB/s a device")
    else:
        blocked, light = write, light_write
        said.append(f"synchronous: the devices wait {say(write.expected)} s for {main_bytes:.4g} B")
    optimum = minimum(young_daly(between, blocked.expected), training.expected) if per_hour.expected > 0 else training.expected
    if policy.interval_steps is not None:
        assert step is not None
        interval = policy.interval_steps * step.expected
        saves = ceil_divide(steps, policy.interval_steps)
        chosen = f"every {policy.interval_steps} steps, as given"
    elif policy.interval_seconds is not None:
        interval = policy.interval_seconds + training.expected * 0
        saves = ceil(training.expected / policy.interval_seconds)
        chosen = f"every {policy.interval_seconds:g} s, as given"
    else:
        interval = maximum(optimum, UNSTATED_INTERVAL_SECONDS)
        saves = ceil(training.expected / interval)
        chosen = "no cadence is given: the Young/Daly interval, at least ten minutes; once where the run is shorter"
    interval = minimum(interval, training.expected)
    saves = maximum(saves, 1)
    if policy.asynchronous:
        # A write that takes longer than the interval holds up the next snapshot.
        blocked = Spread(
            *(
                maximum(b, w - interval)
                for b, w in (
                    (blocked.expected, write.expected),
                    (blocked.low, write.low),
                    (blocked.high, write.high),
                )
            )
        )
    light_saves = ceil_divide(steps, policy.weights_interval_steps) if policy.weights_interval_steps is not None else 0
    if run.reserves.restart_seconds is not None:
        restart = exactly(run.reserves.restart_seconds)
        said.append(f"{run.reserves.restart_seconds:g} s to detect and restart, as given")
    else:
        wait = prior(
            RESTART_SECONDS,
            RESTART_SECONDS_LOW,
            RESTART_SECONDS_HIGH,
            run.interval_coverage,
        )
        load = exactly(policy.load_seconds) if policy.load_seconds is not None else write
        restart = independently(wait, load)
        said.append("15 min to detect and restart (prior: median automatic retry 11 min, hangs an hour) and the load of a checkpoint")
    return Cadence(
        saves=saves,
        light_saves=light_saves,
        interval=interval,
        save=blocked,
        light_save=light,
        mean_time_between_interruptions=between,
        optimum=optimum,
        restart=restart,
        rate=per_hour,
        chosen=chosen,
        assumptions=tuple(said),
        basis=storage_basis if storage_basis == "prior" else rate_basis,
    )


def checkpointing(plan: Cadence) -> Timed:
    """Time the devices stand still for saves of both tiers."""
    main = plan.save.times(plan.saves)
    light = plan.light_save.times(plan.light_saves)
    return Timed(
        together(main, light),
        f"{say(plan.saves)} saves x {say(plan.save.expected)} s + {say(plan.light_saves)} light saves x {say(plan.light_save.expected)} s",
        (plan.chosen, *plan.assumptions[:2]),
        plan.basis,
    )


def data_stall(run: Run, input_tokens: Number | None, training: Spread) -> Timed:
    """Time the devices wait for data: where the pipeline is slower than they eat."""
    rate = run.data_pipeline.input_tokens_per_second
    if rate is None:
        said = "data_pipeline.input_tokens_per_second is not given: the pipeline is taken to keep up with the devices"
        return Timed(
            exactly(training.expected * 0),
            "max(0, input tokens / pipeline rate - training)",
            (said,),
            "prior",
        )
    assert input_tokens is not None
    needed = input_tokens / rate
    eaten = input_tokens / training.expected
    stalls = Spread(*(maximum(needed - t, 0.0) for t in (training.expected, training.high, training.low)))
    return Timed(
        stalls,
        "max(0, input tokens / pipeline rate - training)",
        (f"the pipeline gives {rate:.4g} input tokens/s, the devices eat {say(eaten)}; loading overlaps with training",),
        "given",
    )


def typical_step(training: Spread, input_tokens: Number | None) -> tuple[Spread, str]:
    """The time of a step where their number is not known, for what a loss spike throws back alone."""
    if not input_tokens:
        return exactly(0.0), "the time of a step is not known: a spike is charged its restart alone"
    return training.times(
        minimum(TYPICAL_BATCH_TOKENS / input_tokens, 1.0)
    ), "steps of 4 million tokens are assumed: their number is not known"


@dataclass(frozen=True, slots=True)
class Restarts:
    """Time lost to interruptions, by cause."""

    interruptions: Spread  # hardware and software, whole run
    spikes: Spread
    hardware: Timed
    software: Timed
    loss_spikes: Timed
    progress: Number  # share of its time that the job does not lose to interruptions; none left at 0


def restarts(run: Run, plan: Cadence, step: Spread, busy: Spread, *, step_words: str = "") -> Restarts:
    """Lost work and restarts of hardware and software faults, and the rollbacks of loss spikes.

    An interruption loses half the saving interval and the restart. With x the share so lost of the time between two
    interruptions, the job takes busy / (1 - x): what is redone can be interrupted again.
    """
    assert run.hardware is not None
    devices = float(run.hardware.device_count)

    def lost(rate: Number, restart: Number, seconds: Number) -> tuple[Number, Number]:
        share = rate * devices / 3600.0 * (plan.interval / 2 + restart)
        left = 1.0 - share
        return seconds * share / maximum(left, 1e-3), left

    expected, progress = lost(plan.rate.expected, plan.restart.expected, busy.expected)

    def distance(rate: Number, restart: Number, seconds: Number) -> Number:
        # Rate, restart time and busy time err independently: each is moved alone, the distances add up as root sums of squares.
        moved = (
            lost(rate, plan.restart.expected, busy.expected)[0],
            lost(plan.rate.expected, restart, busy.expected)[0],
            lost(plan.rate.expected, plan.restart.expected, seconds)[0],
        )
        squares: Number = 0.0
        for value in moved:
            squares = squares + (value - expected) * (value - expected)
        return sqrt(squares)

    whole = Spread(
        expected,
        maximum(expected - distance(plan.rate.low, plan.restart.low, busy.low), 0.0),
        expected + distance(plan.rate.high, plan.restart.high, busy.high),
    )
    events = plan.rate.times(devices / 3600.0 * busy.expected)
    given = run.reserves.interruptions_per_device_hour is not None
    word = (
        f"{run.reserves.interruptions_per_device_hour:.4g} interruptions a device-hour, as given"
        if given
        else "1 interruption in 50,000 device-hours (80 %: 1 in 80,000 to 1 in 10,000; Llama 3, BLOOM, 504 x B200, Meta's clusters)"
    )
    formula = "busy x x / (1 - x), x = (interval / 2 + restart) / time between interruptions"
    shared = (word, *plan.assumptions[2:])
    by = "by cause as Llama 3's table 5: 78 % hardware (devices, memory, hosts, network), the rest software"
    basis: Basis = "given" if given else "prior"
    charged = run.method.objective == "pretrain" and not given
    spikes_rate = SPIKES_PER_DEVICE_HOUR if charged else 0.0
    per_spike = SPIKE_STEPS * step.expected + plan.restart.expected
    spike_events = prior(spikes_rate, 0.0, SPIKES_HIGH if charged else 0.0, run.interval_coverage).times(devices / 3600.0 * busy.expected)
    spikes = spike_events.times(per_spike)
    spike_words = (
        "20 rollbacks in the 42 million device-hours of PaLM 540B, Llama 3 405B and DeepSeek-V3, each 100 steps back and 350 skipped"
        if charged
        else "not charged: " + ("the given rate covers every cause" if given else "no published rate outside pretraining")
    )
    # A run shorter than the steps that a spike throws back cannot lose more than itself.
    limit = busy.expected
    spikes = Spread(*(minimum(s, limit) for s in (spikes.expected, spikes.low, spikes.high)))
    return Restarts(
        interruptions=events,
        spikes=spike_events,
        hardware=Timed(
            whole.times(HARDWARE_SHARE),
            f"{HARDWARE_SHARE} x " + formula,
            (*shared, by),
            basis,
        ),
        software=Timed(
            whole.times(SOFTWARE_SHARE),
            f"{SOFTWARE_SHARE:.2f} x " + formula,
            (*shared, by),
            basis,
        ),
        loss_spikes=Timed(
            spikes,
            "spikes x (450 steps + restart)",
            tuple(word for word in (spike_words, step_words if charged else "") if word),
            "prior" if charged else "formula",
        ),
        progress=where(progress > 0, progress, 0.0),
    )


def failure_share(plan: Cadence, interval: Number) -> Number:
    """The share of time that saving and interruptions take at an interval: C/T + (T/2 + R)/M, first order."""
    return plan.save.expected / interval + (interval / 2 + plan.restart.expected) / plan.mean_time_between_interruptions
