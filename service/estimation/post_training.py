"""What post-training spends beside its updates: rollouts, passes of reward, reference and value models, judges.

``figures`` are seconds of all devices together, by kind; ``items`` describe them as device-hours, and hours off the devices with them.
A forward pass is priced at the training's own pace, decoding at the memory's bandwidth (``generation``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import hours_off_device
from .generation import ROLLOUT_BATCH, Decoded, decode
from .item_sums import whole
from .items import Basis, Item, unknown
from .numeric import one
from .parameters import Parameters
from .run import Run
from .spread import Spread, exactly
from .tokens import Workload

GENERATION = "device_hours.generation"
AT_TRAINING_EFFICIENCY = frozenset(
    f"device_hours.{name}" for name in ("log_probabilities", "reference", "reward", "value_model", "judge", "update_epochs")
)
DECODED = frozenset({"device_hours.rollouts", "device_hours.preference_pairs"})
BACKWARD_AND_FORWARD = 3.0  # forward passes' worth of one update of a whole model

NO_ROLLOUTS = "give post_training.prompts, samples_per_prompt, prompt_tokens and generated_tokens"
NO_ANSWER_LENGTH = "give post_training.generated_tokens"
NO_PAIR_LENGTH = "give post_training.generated_tokens, the length of one answer"
NO_PROMPT_LENGTH = "give post_training.prompt_tokens: no prompt of data says how long one is"
NO_ROLLOUT_TOKENS = "the tokens of the rollouts are not known"
NO_PACE = "the time of a forward token is not known"

AT_PACE = "at the forward efficiency of training"
MEAN_PROMPTS = "post_training.prompt_tokens is not given: prompts are as long as those of data on average"
POLICY_READS = "one forward pass of the policy over every rollout"
# What the reference reads, by whether the objective samples and what of the reference is kept.
REFERENCE_READS = {
    (False, "model"): "the reference reads every pair every time the policy does",
    (False, "cached"): "the reference's log-probabilities are computed once for each distinct token and cached",
    (True, "model"): "the reference reads every rollout once",
    (True, "cached"): "rollouts are new, so nothing can be cached beforehand: the reference reads every rollout once",
}
VALUE_LIKE_REWARD = "the value model starts from the reward model and has its size (InstructGPT, arXiv:2203.02155, appendix C.4)"
VALUE_LIKE_POLICY = "no reward model is given: the value model is taken to have the policy's size"
REPEATED = "data counts every sample once for each of its epochs; update_epochs repeats all of it, the first pass is the training"


AS_SURE_AS_GIVEN = exactly(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What a token forward costs at the training's own efficiency."""

    seconds_per_token: float | None  # of the whole job on all its devices; None where it is not known
    relative: Spread = AS_SURE_AS_GIVEN  # how far that may be off: as far as the training
    basis: Basis = "formula"

    @classmethod
    def of(cls, seconds_per_token: float | None, training_hours: Item) -> Pace:
        """The pace of a training whose device-hours are known."""
        hours = training_hours
        if not hours.expected or hours.low is None or hours.high is None:
            return cls(seconds_per_token=seconds_per_token)
        expected = float(hours.expected)
        relative = Spread(1.0, hours.low / expected, hours.high / expected)
        return cls(seconds_per_token=seconds_per_token, relative=relative, basis=hours.basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Seconds of all devices together for one kind of work; None where ``reason`` says why. Its words are in the order they are said."""

    name: str
    seconds: Spread | None
    reason: str = ""
    formula: str = ""
    words: tuple[str, ...] = ()
    basis: Basis = "prior"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is spent, in the order in which it happens."""

    parts: tuple[Part, ...]
    samples: float | None  # rollouts; None where none are made or their number is not known


@dataclass(frozen=True, slots=True)
class _Rollouts:
    """Samples and their tokens, prompt and answer together; None where they are not known."""

    samples: float | None = None
    tokens: float | None = None


def figures(run: Run, workload: Workload, parameters: Parameters, pace: Pace) -> Figures:
    """Every kind of work beside the updates."""
    rollouts = _rollouts(run)
    parts = tuple(_parts(run, workload, parameters, pace, rollouts))
    return Figures(parts=parts, samples=rollouts.samples)


def _parts(run: Run, workload: Workload, parameters: Parameters, pace: Pace, rollouts: _Rollouts) -> Iterator[Part]:
    wanted, objective = run.post_training, run.method.objective
    sampling = objective in ("ppo", "grpo")
    if wanted.prompts is not None:
        yield _sampling(run, parameters, pace)
    elif sampling:
        yield _unknown("rollouts", NO_ROLLOUTS)
    size = None if wanted.reward_parameter_count is None else float(wanted.reward_parameter_count) / float(parameters.active)
    if sampling:
        yield _passes("log_probabilities", rollouts.tokens, 1.0, POLICY_READS, pace)
    if (sampling or objective == "dpo") and wanted.reference != "none":
        read = rollouts.tokens
        if not sampling:
            cached = wanted.reference == "cached" and workload.unique_tokens is not None
            read = one(workload.unique_tokens if cached else workload.input_tokens)
        yield _passes("reference", read, 1.0, REFERENCE_READS[sampling, wanted.reference], pace)
    if size is not None and (sampling or (objective != "reward_model" and rollouts.tokens)):
        said = f"a reward model of {wanted.reward_parameter_count:.4g} parameters reads every rollout"
        yield _passes("reward", rollouts.tokens, size, said, pace)
    if objective == "ppo":
        forwards = (1.0 if size is None else size) * (1 + BACKWARD_AND_FORWARD * wanted.update_epochs)
        yield _passes("value_model", rollouts.tokens, forwards, VALUE_LIKE_POLICY if size is None else VALUE_LIKE_REWARD, pace)
    if wanted.preference_pairs:
        yield _pairs(run, parameters, pace)
    if wanted.judge_tokens:
        said = f"{wanted.judge_tokens:.4g} tokens in all, read by a judge of the policy's own size on the same devices"
        yield _passes("judge", float(wanted.judge_tokens), 1.0, said, pace)


def _rollouts(run: Run) -> _Rollouts:
    """What is sampled."""
    wanted = run.post_training
    if wanted.prompts is None:
        return _Rollouts()
    samples, read = float(wanted.prompts) * wanted.samples_per_prompt, _prompt_tokens(run)
    if wanted.generated_tokens is None or read is None:
        return _Rollouts(samples)
    return _Rollouts(samples, samples * (read + wanted.generated_tokens))


def _prompt_tokens(run: Run) -> float | None:
    """Tokens of a prompt: as given, else the mean of the data's."""
    given = run.post_training.prompt_tokens
    if given is not None:
        return float(given)
    rows = run.data.histogram or ()
    read = sum(prompt * count for prompt, _, count in rows)
    return read / sum(count for _, _, count in rows) if read else None


def _sampling(run: Run, parameters: Parameters, pace: Pace) -> Part:
    """Rollouts: prompts read once, answers decoded."""
    wanted = run.post_training
    prompts, read = float(wanted.prompts or 0), _prompt_tokens(run)
    if wanted.generated_tokens is None:
        return _unknown("rollouts", NO_ANSWER_LENGTH)
    if read is None:
        return _unknown("rollouts", NO_PROMPT_LENGTH)
    generated = prompts * wanted.samples_per_prompt * wanted.generated_tokens
    decoded = decode(run, parameters, generated, read + wanted.generated_tokens / 2, ROLLOUT_BATCH)
    return _decoding("rollouts", run, decoded, prompts * read, pace)


def _pairs(run: Run, parameters: Parameters, pace: Pace) -> Part:
    """Two answers for every pair that has still to be collected."""
    wanted = run.post_training
    pairs, read = float(wanted.preference_pairs or 0), _prompt_tokens(run)
    if wanted.generated_tokens is None:
        return _unknown("preference_pairs", NO_PAIR_LENGTH)
    if read is None:
        return _unknown("preference_pairs", NO_PROMPT_LENGTH)
    decoded = decode(run, parameters, 2 * pairs * wanted.generated_tokens, read + wanted.generated_tokens / 2, ROLLOUT_BATCH)
    return _decoding("preference_pairs", run, decoded, pairs * read, pace)


def _decoding(name: str, run: Run, decoded: Decoded, read: float, pace: Pace) -> Part:
    """Prompts read at the pace of training, answers decoded."""
    seconds = decoded.seconds
    if seconds is None:
        return _unknown(name, decoded.reason or "")
    if pace.seconds_per_token is None:
        return _unknown(name, NO_PACE)
    prefill = pace.relative.times(pace.seconds_per_token * read)
    total = Spread(seconds.expected + prefill.expected, seconds.low + prefill.low, seconds.high + prefill.high)
    words = (f"prompts read once: {read:.4g} tokens at the forward pass's price", *decoded.assumptions)
    if run.post_training.prompt_tokens is None:
        words = (*words, MEAN_PROMPTS)
    return Part(name=name, seconds=total, formula="prefill + decoding", words=words)


def _passes(name: str, tokens: float | None, forwards: float, said: str, pace: Pace) -> Part:
    """Tokens read by a model whose forward pass costs ``forwards`` of the policy's."""
    if tokens is None:
        return _unknown(name, NO_ROLLOUT_TOKENS)
    if pace.seconds_per_token is None:
        return _unknown(name, NO_PACE)
    seconds = pace.relative.times(pace.seconds_per_token * float(tokens) * forwards)
    return Part(name=name, seconds=seconds, formula=f"tokens x {forwards:.4g} forward passes", words=(said, AT_PACE), basis=pace.basis)


def _unknown(name: str, reason: str) -> Part:
    return Part(name=name, seconds=None, reason=reason)


# -- words -------------------------------------------------------------------------------------------------------------
def items(run: Run, spent: Figures, plain: Figures, training_hours: Item) -> list[Item]:
    """``device_hours.generation`` with its parts, and items in hours of processors and people.

    ``plain`` are the figures without corrections (the same object where there are none); ``training_hours`` is
    ``device_hours.training``, which further epochs over the rollouts repeat.
    """
    devices = 1 if run.hardware is None else run.hardware.device_count
    parts = [_item(part, was, devices / 3600) for part, was in zip(spent.parts, plain.parts, strict=True)]
    parts += _further_epochs(run, training_hours)
    if parts:
        parent = "device_hours.total"
        generation = whole(GENERATION, "reserves", "device_hours", parts, parent=parent, together=AT_TRAINING_EFFICIENCY)
    else:
        generation = Item(
            code=GENERATION,
            section="reserves",
            quantity="device_hours",
            expected=0.0,
            formula="nothing is generated",
            assumptions=(f"the objective {run.method.objective} samples nothing, and post_training declares nothing",),
            parent="device_hours.total",
        )
    off_device = (*hours_off_device.tools(run, spent.samples), *hours_off_device.people(run), *hours_off_device.preparation(run))
    return [generation, *parts, *off_device]


def _item(part: Part, plain: Part, hours_per_second: float) -> Item:
    code = "device_hours." + part.name
    if part.seconds is None:
        return unknown(code, "reserves", "device_hours", part.reason, parent=GENERATION)
    hours = part.seconds.times(hours_per_second)
    before = part.seconds.expected if plain.seconds is None else plain.seconds.expected
    return Item(
        code=code,
        section="reserves",
        quantity="device_hours",
        expected=one(hours.expected),
        formula=part.formula,
        basis=part.basis,
        low=one(hours.low),
        high=one(hours.high),
        assumptions=part.words,
        parent=GENERATION,
        uncalibrated=None if before == part.seconds.expected else one(before * hours_per_second),
    )


def _further_epochs(run: Run, training_hours: Item) -> list[Item]:
    """Updates beyond the first pass over the rollouts, where the data counts each rollout once."""
    epochs, code = run.post_training.update_epochs, "device_hours.update_epochs"
    if epochs <= 1:
        return []
    if training_hours.expected is None:
        return [unknown(code, "reserves", "device_hours", training_hours.reason or "", parent=GENERATION)]
    scale, hours, before = epochs - 1, float(training_hours.expected), training_hours.uncalibrated
    return [
        Item(
            code=code,
            section="reserves",
            quantity="device_hours",
            expected=hours * scale,
            formula=f"({epochs:g} - 1) x device_hours.training",
            basis=training_hours.basis,
            low=(hours if training_hours.low is None else training_hours.low) * scale,
            high=(hours if training_hours.high is None else training_hours.high) * scale,
            assumptions=(REPEATED,),
            parent=GENERATION,
            uncalibrated=None if before is None else before * scale,
        )
    ]
