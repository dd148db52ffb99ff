"""What post-training spends beside its updates: rollouts, reward and reference passes, judges; other hours beside them."""

from __future__ import annotations

from dataclasses import dataclass

from . import hours_off_device
from .generation import ROLLOUT_BATCH, decode
from .item_sums import whole
from .items import Basis, Item, unknown
from .parameters import Parameters
from .run import Run
from .spread import Spread, exactly
from .tokens import Workload

AT_TRAINING_EFFICIENCY = frozenset(
    f"device_hours.{name}" for name in ("log_probabilities", "reference", "reward", "value_model", "judge", "update_epochs")
)
DECODED = frozenset({"device_hours.rollouts", "device_hours.preference_pairs"})
BACKWARD_AND_FORWARD = 3.0  # forward passes' worth of one update of a whole model


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What a token forward costs on all devices together, at the training's own efficiency."""

    seconds_per_token: float | None  # of the whole job; None where it is not known
    plain: float | None  # ... without corrections
    training_hours: Item  # ``device_hours.training``, whose uncertainty every pass shares


def items(run: Run, work: Workload, parameters: Parameters, pace: Pace) -> list[Item]:
    """``device_hours.generation`` with its parts, and items in hours of processors and people."""
    builder = _Builder(run, work, parameters, pace)
    objective = run.method.objective
    if objective in ("ppo", "grpo"):
        builder.rollouts(required=True)
        builder.policy_log_probabilities()
        builder.reference(builder.sampled_tokens)
        builder.reward()
        if objective == "ppo":
            builder.value_model()
    else:
        builder.rollouts(required=False)
        if objective == "dpo":
            cached = run.post_training.reference == "cached"
            builder.reference(work.unique_tokens if cached and work.unique_tokens is not None else work.input_tokens)
        if run.post_training.reward_parameter_count is not None and objective != "reward_model" and builder.sampled_tokens:
            builder.reward()
    builder.preference_pairs()
    builder.judge()
    builder.further_epochs(pace.training_hours)
    parts = builder.parts
    if parts:
        generation = whole(
            "device_hours.generation",
            "reserves",
            "device_hours",
            parts,
            parent="device_hours.total",
            together=AT_TRAINING_EFFICIENCY,
        )
    else:
        generation = Item(
            code="device_hours.generation",
            section="reserves",
            quantity="device_hours",
            expected=0.0,
            formula="nothing is generated",
            assumptions=(f"the objective {objective} samples nothing, and post_training declares nothing",),
            parent="device_hours.total",
        )
    return [
        generation,
        *parts,
        *hours_off_device.tools(run, builder.samples),
        *hours_off_device.people(run),
        *hours_off_device.preparation(run),
    ]


class _Builder:
    """The parts of ``device_hours.generation``, in the order they happen."""

    def __init__(self, run: Run, work: Workload, parameters: Parameters, pace: Pace) -> None:
        self.run, self.work, self.parameters = run, work, parameters
        self.per_token, self.plain_per_token = pace.seconds_per_token, pace.plain
        # A forward pass is priced at training's pace, so it is as uncertain as that.
        self.pace = exactly(1.0)
        self.pace_basis: Basis = "formula"
        hours = pace.training_hours
        if hours.expected and hours.low is not None and hours.high is not None:
            expected = float(hours.expected)
            self.pace = Spread(1.0, hours.low / expected, hours.high / expected)
            self.pace_basis = hours.basis
        self.parts: list[Item] = []
        self.samples: float | None = None
        self.sampled_tokens: float | None = None  # prompt and answer, all rollouts

    def rollouts(self, *, required: bool) -> None:
        """Sampling: prompts read once, answers decoded."""
        wanted = self.run.post_training
        if wanted.prompts is None:
            if required:
                self._unknown(
                    "rollouts",
                    "give post_training.prompts, samples_per_prompt, prompt_tokens and generated_tokens",
                )
            return
        self.samples = float(wanted.prompts) * wanted.samples_per_prompt
        if wanted.generated_tokens is None:
            self._unknown("rollouts", "give post_training.generated_tokens")
            return
        read = self._prompt("rollouts")
        if read is None:
            return
        self.sampled_tokens = self.samples * (read + wanted.generated_tokens)
        self._sampled(
            "rollouts",
            float(wanted.prompts) * read,
            self.samples * wanted.generated_tokens,
            read + wanted.generated_tokens / 2,
        )

    def preference_pairs(self) -> None:
        """Two answers for every pair that has still to be collected."""
        wanted = self.run.post_training
        if not wanted.preference_pairs:
            return
        if wanted.generated_tokens is None:
            self._unknown(
                "preference_pairs",
                "give post_training.generated_tokens, the length of one answer",
            )
            return
        pairs, read = float(wanted.preference_pairs), self._prompt("preference_pairs")
        if read is None:
            return
        self._sampled(
            "preference_pairs",
            pairs * read,
            2 * pairs * wanted.generated_tokens,
            read + wanted.generated_tokens / 2,
        )

    def _prompt(self, name: str) -> float | None:
        """Tokens of a prompt: as given, else the mean of the data's; where neither says, the part is unknown."""
        given = self.run.post_training.prompt_tokens
        if given is not None:
            return float(given)
        rows = self.run.data.histogram or ()
        read = sum(prompt * count for prompt, _, count in rows)
        if read:
            return read / sum(count for _, _, count in rows)
        self._unknown(name, "give post_training.prompt_tokens: no prompt of data says how long one is")
        return None

    def _sampled(self, name: str, read: float, generated: float, context: float) -> None:
        decoded = decode(self.run, self.parameters, generated, context, ROLLOUT_BATCH)
        if decoded.seconds is None:
            self._unknown(name, decoded.reason or "")
            return
        if self.per_token is None:
            self._unknown(name, "the time of a forward token is not known")
            return
        prefill = self.pace.times(self.per_token * read)
        seconds = decoded.seconds
        said = [f"prompts read once: {read:.4g} tokens at the forward pass's price", *decoded.assumptions]
        if self.run.post_training.prompt_tokens is None:
            said.append("post_training.prompt_tokens is not given: prompts are as long as those of data on average")
        total = Spread(seconds.expected + prefill.expected, seconds.low + prefill.low, seconds.high + prefill.high)
        plain = None if self.plain_per_token is None else seconds.expected + self.plain_per_token * read
        self._part(name, total, plain, "prefill + decoding", tuple(said), "prior")

    def policy_log_probabilities(self) -> None:
        """The sampled tokens' probabilities under the policy, read once before the updates."""
        self._passes(
            "log_probabilities",
            self.sampled_tokens,
            1.0,
            "one forward pass of the policy over every rollout",
        )

    def reference(self, tokens: float | None) -> None:
        """The frozen reference's forward pass."""
        kind = self.run.post_training.reference
        if kind == "none":
            return
        sampled = self.run.method.objective in ("ppo", "grpo")
        said = {
            (
                False,
                "model",
            ): "the reference reads every pair every time the policy does",
            (
                False,
                "cached",
            ): "the reference's log-probabilities are computed once for each distinct token and cached",
            (True, "model"): "the reference reads every rollout once",
            (
                True,
                "cached",
            ): "rollouts are new, so nothing can be cached beforehand: the reference reads every rollout once",
        }[sampled, kind]
        self._passes("reference", tokens, 1.0, said)

    def reward(self) -> None:
        """The reward model's forward pass; rules and verifiers cost no device time."""
        count = self.run.post_training.reward_parameter_count
        if count is not None:
            self._passes(
                "reward",
                self.sampled_tokens,
                self._relative(count),
                f"a reward model of {count:.4g} parameters reads every rollout",
            )

    def value_model(self) -> None:
        """PPO's value model: read once and updated with the policy."""
        wanted = self.run.post_training
        count = wanted.reward_parameter_count
        size = 1.0 if count is None else self._relative(count)
        said = "the value model starts from the reward model and has its size (InstructGPT, arXiv:2203.02155, appendix C.4)"
        if count is None:
            said = "no reward model is given: the value model is taken to have the policy's size"
        self._passes(
            "value_model",
            self.sampled_tokens,
            size * (1 + BACKWARD_AND_FORWARD * wanted.update_epochs),
            said,
        )

    def judge(self) -> None:
        """A judge that reads answers."""
        tokens = self.run.post_training.judge_tokens
        if tokens:
            self._passes(
                "judge",
                float(tokens),
                1.0,
                f"{tokens:.4g} tokens in all, read by a judge of the policy's own size on the same devices",
            )

    def further_epochs(self, training_hours: Item) -> None:
        """Updates beyond the first pass over the rollouts, where the data counts each rollout once."""
        epochs = self.run.post_training.update_epochs
        if epochs <= 1:
            return
        if training_hours.expected is None:
            self._unknown("update_epochs", training_hours.reason or "")
            return
        scale = epochs - 1
        hours = float(training_hours.expected)
        self.parts.append(
            Item(
                code="device_hours.update_epochs",
                section="reserves",
                quantity="device_hours",
                expected=hours * scale,
                low=(hours if training_hours.low is None else training_hours.low) * scale,
                high=(hours if training_hours.high is None else training_hours.high) * scale,
                formula=f"({epochs:g} - 1) x device_hours.training",
                basis=training_hours.basis,
                assumptions=(
                    "data counts every sample once for each of its epochs; update_epochs repeats all of it, the first pass is the training",
                ),
                parent="device_hours.generation",
                uncalibrated=None if training_hours.uncalibrated is None else training_hours.uncalibrated * scale,
            )
        )

    def _relative(self, count: float) -> float:
        """A model's forward cost in units of the policy's."""
        return float(count) / float(self.parameters.active)

    def _passes(self, name: str, tokens: float | None, forwards: float, said: str) -> None:
        if tokens is None:
            self._unknown(name, "the tokens of the rollouts are not known")
        elif self.per_token is None:
            self._unknown(name, "the time of a forward token is not known")
        else:
            words = (said, "at the forward efficiency of training")
            self._part(
                name,
                self.pace.times(self.per_token * float(tokens) * forwards),
                None if self.plain_per_token is None else self.plain_per_token * float(tokens) * forwards,
                f"tokens x {forwards:.4g} forward passes",
                words,
                self.pace_basis,
            )

    def _part(
        self,
        name: str,
        seconds: Spread,
        plain: float | None,
        formula: str,
        said: tuple[str, ...],
        basis: Basis,
    ) -> None:
        devices = 1 if self.run.hardware is None else self.run.hardware.device_count
        hours = seconds.times(devices / 3600)
        self.parts.append(
            Item(
                code=f"device_hours.{name}",
                section="reserves",
                quantity="device_hours",
                expected=hours.expected,
                low=hours.low,
                high=hours.high,
                formula=formula,
                basis=basis,
                assumptions=said,
                parent="device_hours.generation",
                uncalibrated=None if plain is None or plain == seconds.expected else plain * (devices / 3600),
            )
        )

    def _unknown(self, name: str, reason: str) -> None:
        self.parts.append(
            unknown(
                f"device_hours.{name}",
                "reserves",
                "device_hours",
                reason,
                parent="device_hours.generation",
            )
        )
