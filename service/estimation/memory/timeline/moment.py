"""One moment on one pipeline stage: what is live in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...numeric import Number
from ..amounts import add
from ..device.states import HeldStates


class Parts(NamedTuple):
    """What a device's allocated bytes are made of, in bytes; the names are those of the items."""

    weights: Number
    gradients: Number
    master_weights: Number
    optimizer_states: Number
    activations: Number
    logits: Number
    transient: Number


@dataclass(slots=True)
class Moment:
    """One moment of a phase on one pipeline stage, in bytes."""

    phase: str  # "forward", "backward", "optimizer_step", ...: the phase that it belongs to
    stage: Number
    states: HeldStates
    activations: Number
    logits: Number
    transient: Number
    late: Number = 0.0  # gradients still to come, weighted by how much of what is live now are vocabulary-wide tensors that go at once
    allocated: Number = field(init=False)  # all of it, in the order of ``Parts``

    def __post_init__(self) -> None:
        self.allocated = add(add(add(self.states.total, self.activations), self.logits), self.transient)

    @property
    def parts(self) -> Parts:
        """All that is live, part by part."""
        states = self.states
        return Parts(states.weights, states.gradients, states.master, states.optimizer, self.activations, self.logits, self.transient)

    @property
    def comes_and_goes(self) -> Number:
        """What the allocator takes and gives back within a step: activations, logits and transients."""
        return add(add(self.activations, self.logits), self.transient)


@dataclass(slots=True)
class BufferedStep:
    """The optimizer step of an engine that makes buffers for it.

    Blocks that the rest of the step leaves to the allocator are too small for the buffers, and theirs serve nothing else: both stay
    reserved for one another (``StepBuffers``).
    """

    moment: Moment  # while the buffers are live
    buffers: Number  # bytes of all that are made, live at once or not


@dataclass(slots=True)
class StageTimeline:
    """The moments of one pipeline stage that can be a phase's peak."""

    load: Moment | None  # before anything that only training makes: never the peak, so only where it is shown
    step: list[Moment]  # forward end, backward pass, optimizer step
    buffered_step: BufferedStep | None
    beside: list[Moment]  # saving a checkpoint, evaluating, generating answers
