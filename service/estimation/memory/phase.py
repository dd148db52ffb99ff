"""One phase of a training step on one pipeline stage: what is live in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..numeric import Number
from .sizes import add
from .states import Model

PARTS = ("weights", "gradients", "master_weights", "optimizer_states", "activations", "logits", "transient")
ACTIVE = ("activations", "logits", "transient")


@dataclass(slots=True)
class Phase:
    """One phase on one pipeline stage, in bytes."""

    name: str
    stage: Number
    model: Model
    activations: Number
    logits: Number
    transient: Number
    late: Number = 0.0  # gradients still to come, weighted by how much of the peak is vocabulary-wide tensors that go at once
    in_peak: bool = True
    # Where an engine makes buffers for the step: what stays reserved for them at the peak of all else, and for all else while they live;
    # whether this moment is the stage's peak; and what comes and goes at the peak of all else, if it is that of the buffers.
    cached: Number = 0.0
    top: Number = True
    fragmented: Number | None = None
    allocated: Number = field(init=False)  # all of it, in the order of ``PARTS``

    def __post_init__(self) -> None:
        self.allocated = add(add(add(self.model.total, self.activations), self.logits), self.transient)

    @property
    def parts(self) -> dict[str, Number]:
        """The parts by name."""
        model = self.model
        values = (model.weights, model.gradients, model.master, model.optimizer, self.activations, self.logits, self.transient)
        return dict(zip(PARTS, values, strict=True))

    @property
    def active(self) -> Number:
        """What comes and goes: activations, logits and transients."""
        if self.fragmented is not None:
            return self.fragmented
        return add(add(self.activations, self.logits), self.transient)
