"""Bytes over links: the collectives of every kind of parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..numeric import Number, floor, maximum, minimum, where
from ..parameters import Parameters
from ..placement import FULLY_SHARDED, Placement
from ..run import Run
from ..stacks import stack_of
from .block_sums import BlockSums


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


def _alone(size: Number) -> bool:
    """Whether a group is a single rank in every layout, so that nothing moves."""
    return not isinstance(size, np.ndarray) and size == 1


def _none_of(payload: Number) -> bool:
    """Whether there is nothing to move in any layout."""
    return not isinstance(payload, np.ndarray) and payload == 0.0


def ring(payload: Number, size: Number, apart: Number, node: float, messages: Number = 0.0) -> Transfer:
    """An all-gather or reduce-scatter of ``payload`` bytes over ``size`` ranks that lie ``apart`` ranks apart (an all-reduce is two).

    A ring moves payload x (size - 1) / size over every link (Patarasuk and Yuan 2009); where it leaves the node of ``node`` devices,
    as many network cards share it as the node holds ranks of the group.
    """
    if _alone(size):
        return NOTHING
    moved = payload * ((size - 1.0) / size)
    per_node = maximum(1.0, minimum(size, floor(node / apart) * 1.0))
    return Transfer(moved, where(size > per_node, moved / per_node, 0.0), where(size > 1.0, messages, 0.0))


class Held(NamedTuple):
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
        return Held(dense=dense, experts=experts, trained_dense=trained / (placed.tensor * placed.pipeline), trained_experts=0.0)
    share = trained / float(parameters.total or 1)
    return Held(dense=dense, experts=experts, trained_dense=dense * share, trained_experts=experts * share)


class Collectives(NamedTuple):
    """What moves for one micro-batch on one device, were all blocks of the model on its stage."""

    run: Run
    placed: Placement
    blocks: BlockSums
    tokens: Number  # of a micro-batch on one context rank
    value_bytes: float  # of an activation: what narrow recipes exchange too
    passes: float  # through the blocks: forward, backward, recomputation
    node: float  # devices that reach each other over the fast link

    def tensor(self) -> Transfer:
        """Two all-reduces of the hidden state for each block and pass (Megatron-LM; with sequence parallelism as gather and scatter)."""
        size = self.placed.tensor
        if _alone(size):
            return NOTHING
        hidden_state = self.value_bytes * self.tokens * float(self.run.architecture.hidden)
        once = ring(hidden_state, size, 1.0, self.node, messages=(size - 1.0) / 2.0)
        return once.times(2.0 * self.blocks.reductions * self.passes)

    def context(self) -> Transfer:
        """Keys and values pass around the ring; their gradients too on the way back."""
        size, tensor = self.placed.context, self.placed.tensor
        if _alone(size):
            return NOTHING
        return ring(self.value_bytes * self.tokens * size * self.blocks.key_values / tensor, size, tensor, self.node).times(
            self.passes + 1.0
        )

    def expert(self) -> Transfer:
        """Tokens to their experts and back, all to all; expert ranks run over tensor and data ranks, nearest first."""
        size = self.placed.expert
        if not self.blocks.routed or _alone(size):
            return NOTHING
        sent = self.value_bytes * self.tokens / self.placed.tensor * self.blocks.routed * 2.0 * self.passes
        near = maximum(1.0, minimum(size, self.node))
        return Transfer(
            where(size > 1.0, sent * ((size - 1.0) / size), 0.0),
            where(size > near, sent * ((size - near) / size), 0.0),
            where(size > 1.0, 2.0 * self.passes * self.blocks.layers, 0.0),
        )

    def pipeline(self) -> Transfer:
        """The hidden state to the next stage and its gradient back, for every virtual stage; each tensor rank sends its part."""
        stages, tensor, virtual = self.placed.pipeline, self.placed.tensor, self.placed.virtual_stages
        if _alone(stages):
            return NOTHING
        hidden_state = 2.0 * self.value_bytes * self.tokens * float(self.run.architecture.hidden)
        sent = where(stages > 1.0, hidden_state / tensor * virtual, 0.0)
        leaves = where(tensor * self.placed.context * self.placed.data >= self.node, 1.0, 0.0)
        return Transfer(sent * (1.0 - leaves), sent * leaves, where(stages > 1.0, 2.0 * virtual, 0.0))

    def sharding(self, held: Held) -> tuple[Transfer, Transfer]:
        """Exchanges of weights and gradients of all blocks of the stage: for every micro-batch, and once a step.

        ZeRO (Rajbhandari et al. 2019): plain data parallelism reduces gradients in two rounds; stages 1 and 2 scatter gradients and
        gather weights; stage 3 gathers weights for the forward and again for the backward pass and scatters gradients. Ranks that
        hold the same weights lie a tensor group apart, those that hold the same experts an expert group.
        """
        run, placed, sharding = self.run, self.placed, self.run.layout.sharding
        gradient = min(float(run.precision.gradient_bytes), 4.0)
        weight = min(float(run.precision.weight_bytes), self.value_bytes)
        gradients = gradient * held.trained_dense, gradient * held.trained_experts
        scattered = self._over_the_shard(*gradients)
        if sharding in FULLY_SHARDED:
            messages = self.blocks.layers / placed.pipeline
            gathered = self._over_the_shard(weight * held.dense, weight * held.experts, messages).times(2.0)
            return gathered + scattered, self._between_shards(*gradients) if sharding == "hybrid" else NOTHING
        if sharding == "none":
            return NOTHING, scattered.times(2.0)
        stepped = self._over_the_shard(weight * held.trained_dense, weight * held.trained_experts)
        if sharding == "zero2" and stack_of(run.software, run.precision).sharding.reduces_every_micro_batch:
            return scattered, stepped
        return NOTHING, scattered + stepped

    def _over_the_shard(self, dense_bytes: Number, expert_bytes: Number, messages: Number = 0.0) -> Transfer:
        """A gather or scatter of dense bytes over the shard group and of experts' over theirs."""
        placed = self.placed
        moved = ring(dense_bytes, placed.shard, placed.tensor, self.node, messages=messages)
        if _none_of(expert_bytes):
            return moved
        return moved + ring(expert_bytes, placed.expert_shard, placed.expert_split, self.node)

    def _between_shards(self, dense_bytes: Number, expert_bytes: Number) -> Transfer:
        """An all-reduce between shard groups that hold the same."""
        placed = self.placed
        moved = ring(dense_bytes / placed.shard, placed.shard_copies, placed.tensor * placed.shard, self.node).times(2.0)
        if _none_of(expert_bytes):
            return moved
        own, apart = expert_bytes / placed.expert_shard, placed.expert_split * placed.expert_shard
        return moved + ring(own, placed.expert_shard_copies, apart, self.node).times(2.0)
