"""Bytes over links: the collectives of every kind of parallelism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numeric import Number, floor, maximum, minimum, where
from ..parameters import Parameters
from ..placement import FULLY_SHARDED, Placement
from ..run import Run
from ..stacks import stack_of
from .sums import Sums

WIDTH = 2.0  # bytes of an activation in every 16-bit recipe; fp8 recipes exchange 16 bits too


@dataclass(slots=True)
class Transfer:
    """Bytes of a collective: through each device's own link, and its share of what leaves the node."""

    intra: Number
    inter: Number
    messages: Number = 0.0

    def __add__(self, other: Transfer) -> Transfer:
        return Transfer(self.intra + other.intra, self.inter + other.inter, self.messages + other.messages)

    def times(self, factor: Number) -> Transfer:
        """The same collective done ``factor`` times."""
        if self is NOTHING:
            return self
        return Transfer(self.intra * factor, self.inter * factor, self.messages * factor)


NOTHING = Transfer(0.0, 0.0, 0.0)


def node_size(run: Run) -> float:
    """Devices that reach each other over the fast link."""
    assert run.hardware is not None
    return float(max(run.hardware.devices_per_node, run.hardware.device.switched_link_devices))


def _alone(size: Number) -> bool:
    """Whether a group is a single rank in every layout, so that nothing moves."""
    return not isinstance(size, np.ndarray) and bool(size == 1)


def ring(payload: Number, size: Number, inner: Number, node: float, messages: Number = 0.0) -> Transfer:
    """An all-gather or reduce-scatter of ``payload`` bytes over ``size`` ranks that lie ``inner`` apart (an all-reduce is two).

    A ring moves payload x (size - 1) / size over every link (Patarasuk and Yuan 2009); where it leaves the node, as many network
    cards share it as the node holds ranks of the group.
    """
    if _alone(size):
        return NOTHING
    moved = payload * ((size - 1.0) / size)
    per_node = maximum(1.0, minimum(size, floor(node / inner) * 1.0))
    return Transfer(moved, where(size > per_node, moved / per_node, 0.0), where(size > 1.0, messages, 0.0))


def tensor(run: Run, s: Sums, tokens: Number, passes: float, node: float) -> Transfer:
    """Two all-reduces of the hidden state for each block and pass (Megatron-LM; with sequence parallelism as gather and scatter)."""
    if _alone(run.layout.tensor):
        return NOTHING
    tp = run.layout.tensor * 1.0
    activation = WIDTH * tokens * float(run.architecture.hidden)
    return ring(activation, tp, 1.0, node, messages=(tp - 1.0) / 2.0).times(2.0 * s.reductions * passes)


def context(run: Run, s: Sums, tokens: Number, passes: float, node: float) -> Transfer:
    """Keys and values pass around the ring; their gradients too on the way back."""
    if _alone(run.layout.context):
        return NOTHING
    cp, tp = run.layout.context * 1.0, run.layout.tensor * 1.0
    return ring(WIDTH * tokens * cp * s.key_values / tp, cp, tp, node).times(passes + 1.0)


def expert(run: Run, s: Sums, tokens: Number, passes: float, node: float) -> Transfer:
    """Tokens to their experts and back, all to all; expert ranks run over tensor and data ranks, nearest first."""
    if not s.routed or _alone(run.layout.expert):
        return NOTHING
    ep, tp = run.layout.expert * 1.0, run.layout.tensor * 1.0
    sent = WIDTH * tokens / tp * s.routed * 2.0 * passes
    near = maximum(1.0, minimum(ep, node))
    return Transfer(
        where(ep > 1.0, sent * ((ep - 1.0) / ep), 0.0),
        where(ep > near, sent * ((ep - near) / ep), 0.0),
        where(ep > 1.0, 2.0 * passes * s.layers, 0.0),
    )


def pipeline(run: Run, tokens: Number, node: float) -> Transfer:
    """The hidden state to the next stage and its gradient back, for every virtual stage; each tensor rank sends its part."""
    layout = run.layout
    if _alone(layout.pipeline):
        return NOTHING
    tp, pp, virtual = layout.tensor * 1.0, layout.pipeline * 1.0, layout.virtual_pipeline * 1.0
    sent = where(pp > 1.0, 2.0 * WIDTH * tokens * float(run.architecture.hidden) / tp * virtual, 0.0)
    leaves = where(tp * layout.context * layout.data >= node, 1.0, 0.0)
    return Transfer(sent * (1.0 - leaves), sent * leaves, where(pp > 1.0, 2.0 * virtual, 0.0))


@dataclass(frozen=True, slots=True)
class Held:
    """Parameters of one device before sharding over data-parallel ranks, and those of them that are trained."""

    dense: Number
    experts: Number
    trained_dense: Number
    trained_experts: Number


def held_parameters(run: Run, parameters: Parameters, placed: Placement) -> Held:
    """A mean stage's share of the model; adapters replicate like dense weights."""
    dense = float((parameters.total or 0) - (parameters.experts or 0)) / (placed.tensor * placed.pipeline)
    experts = float(parameters.experts or 0) / (placed.expert_split * placed.pipeline)
    trained = float(parameters.trainable or 0)
    if run.method.lora is not None:
        return Held(dense, experts, trained / (placed.tensor * placed.pipeline), 0.0)
    share = trained / float(parameters.total or 1)
    return Held(dense, experts, dense * share, experts * share)


def sharding(run: Run, held: Held, placed: Placement, layers: float, node: float) -> tuple[Transfer, Transfer]:
    """Exchanges of weights and gradients: for every micro-batch, and once a step.

    ZeRO (Rajbhandari et al. 2019): plain data parallelism reduces gradients in two rounds; stages 1 and 2 scatter gradients and
    gather weights; stage 3 gathers weights for the forward and again for the backward pass and scatters gradients. Ranks that hold
    the same weights lie a tensor group apart, those that hold the same experts an expert group.
    """
    sharding = run.layout.sharding
    gradient = min(float(run.precision.gradient_bytes), 4.0)
    weight = min(float(run.precision.weight_bytes), WIDTH) if run.precision.recipe != "fp32" else 4.0

    def ranks(dense: Number, experts: Number, messages: Number = 0.0) -> Transfer:
        """A gather or scatter of dense bytes over the shard group and of experts' over theirs."""
        moved = ring(dense, placed.shard, placed.tensor, node, messages=messages)
        if type(experts) is float and experts == 0.0:
            return moved
        return moved + ring(experts, placed.expert_shard, placed.expert_split, node)

    def copies(dense: Number, experts: Number) -> Transfer:
        """An all-reduce between shard groups that hold the same."""
        moved = ring(dense / placed.shard, placed.shard_copies, placed.tensor * placed.shard, node).times(2.0)
        if type(experts) is float and experts == 0.0:
            return moved
        own = experts / placed.expert_shard
        return moved + ring(own, placed.expert_shard_copies, placed.expert_split * placed.expert_shard, node).times(2.0)

    scattered = ranks(gradient * held.trained_dense, gradient * held.trained_experts)
    if sharding in FULLY_SHARDED:
        gathered = ranks(weight * held.dense, weight * held.experts, messages=layers / placed.pipeline).times(2.0)
        once = copies(gradient * held.trained_dense, gradient * held.trained_experts) if sharding == "hybrid" else NOTHING
        return gathered + scattered, once
    if sharding == "none":
        return NOTHING, scattered.times(2.0)
    stepped = ranks(weight * held.trained_dense, weight * held.trained_experts)
    if sharding == "zero2" and stack_of(run.software, run.precision).sharding.reduces_every_micro_batch:
        return scattered, stepped
    return NOTHING, scattered + stepped
