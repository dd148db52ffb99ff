"""Who holds what: every group of ranks of a run, and over how many of them each part of the model is divided.

The one place where a layout becomes sizes of groups. Memory, step time, storage and communication ask it and derive nothing, so
that what one of them divides the others divide too. All fields broadcast over arrays of layouts and batches.

Ranks are numbered tensor first, then context, then data, pipeline stages outermost (Megatron-core, ``parallel_state.py``, order
"tp-cp-ep-dp-pp"; torchtitan, ``parallel_dims.py``). So, of the ranks of one pipeline stage:

- the *dense* weights of a block are divided over ``tensor`` ranks, and ``replicas`` = data x context ranks hold the same part:
  context ranks read other tokens with the same weights, and sharding runs over them too (torchtitan's ``dp_shard_cp`` mesh;
  Megatron-core's distributed optimizer works in ``get_data_parallel_group(with_context_parallel=True)``).
- its *experts* are divided over ``expert_split`` = expert x expert_tensor of those same tensor x replicas ranks, nearest first, and
  ``expert_replicas`` ranks hold the same ones (Megatron-core: ``expert_data_parallel_group``). Without expert parallelism they are
  divided like every other matrix.
- sharding divides each state over ``shard`` of the replicas (all of them, or a hybrid group) and that of experts over
  ``expert_shard`` of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

from .numeric import Number, is_array, maximum, minimum, where
from .optimizers import OPTIMIZERS
from .run import Run
from .stacks import stack_of
from .stacks.profile import Stack

FULLY_SHARDED = frozenset({"zero3", "hybrid"})  # weights too [Rajbhandari et al. 2019, stage 3]
GRADIENTS_SHARDED = frozenset({"zero2", *FULLY_SHARDED})
STATES_SHARDED = frozenset({"zero1", *GRADIENTS_SHARDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Sizes of a run's groups of ranks: counts, floats or arrays of them."""

    tensor: Number
    pipeline: Number
    context: Number
    data: Number
    expert: Number  # expert parallel ranks
    expert_tensor: Number  # ranks that one expert's matrices are divided over
    replicas: Number  # ranks of a stage that hold the same part of the dense weights
    shard: Number  # of them, those that sharding divides a state over
    expert_split: Number  # ranks of a stage that hold different experts, or different parts of them
    expert_replicas: Number
    expert_shard: Number
    weights_over: Number  # ranks that divide the dense weights of one tensor rank; 1 where each holds them whole
    gradients_over: Number
    states_over: Number  # master weights and the optimizer's states: what one rank steps and writes
    expert_weights_over: Number
    expert_gradients_over: Number
    expert_states_over: Number
    writers: Number  # ranks that hold different parts of a checkpoint and write them at the same time
    sequence_split: Number  # ranks that the replicated tensors of a block are divided over (sequence parallelism)
    expert_imbalance: Number  # tokens of the fullest expert rank over the mean
    micro_sequences: Number  # sequences of one micro-batch on one rank
    micro_batches: Number  # of a step
    virtual_stages: Number  # pieces of a pipeline stage in an interleaved schedule

    @property
    def routed_inner_share(self) -> Number:
        """Share of the inner values of a micro-batch's tokens that a rank's experts make.

        Where tensor ranks share the sequence each sends its own tokens, and the ranks of one expert gather them again: its part of the
        matrices makes their part of the values (Megatron-core, transformer/moe/token_dispatcher.py).
        """
        return 1.0 / (self.sequence_split if _splits(self.sequence_split) else self.expert_tensor)

    @property
    def shard_copies(self) -> Number:
        """Shard groups that hold the same: they reduce their gradients among each other (hybrid sharding)."""
        return self.replicas / self.shard

    @property
    def expert_shard_copies(self) -> Number:
        """The same for experts."""
        return self.expert_replicas / self.expert_shard


def _splits(ranks: Number) -> bool:
    return is_array(ranks) or ranks != 1.0


def place(run: Run) -> Placement:
    """The groups of a run."""
    layout, batch, stack = run.layout, run.batch, stack_of(run.software, run.precision)
    tensor, pipeline, context, data = layout.tensor * 1.0, layout.pipeline * 1.0, layout.context * 1.0, layout.data * 1.0
    expert = layout.expert * 1.0
    replicas = data * context
    shard = replicas
    if layout.sharding == "hybrid" and layout.shard_group_size is not None:
        shard = minimum(layout.shard_group_size * 1.0, replicas)
    experts_apart = is_array(expert) or expert > 1.0 or layout.expert_tensor is not None
    expert_tensor, expert_split, expert_replicas, expert_shard = tensor, tensor, replicas, shard
    if experts_apart:
        expert_tensor = _expert_tensor(run, expert, tensor)
        expert_split = expert * expert_tensor
        expert_replicas = maximum(replicas * tensor / expert_split, 1.0)
        expert_shard = maximum(shard * tensor / expert_split, 1.0)
    weights_over, expert_weights_over = (shard, expert_shard) if divides_weights(run) else (1.0, 1.0)
    gradients_over, expert_gradients_over = _gradients(run, stack, shard, expert_shard)
    states_over, expert_states_over = (shard, expert_shard) if layout.sharding in STATES_SHARDED else (1.0, 1.0)
    return Placement(
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        data=data,
        expert=expert,
        expert_tensor=expert_tensor,
        replicas=replicas,
        shard=shard,
        expert_split=expert_split,
        expert_replicas=expert_replicas,
        expert_shard=expert_shard,
        weights_over=weights_over,
        gradients_over=gradients_over,
        states_over=states_over,
        expert_weights_over=expert_weights_over,
        expert_gradients_over=expert_gradients_over,
        expert_states_over=expert_states_over,
        writers=pipeline * maximum(tensor * states_over, expert_split * expert_states_over),
        sequence_split=tensor if layout.sequence_parallel else 1.0,
        expert_imbalance=where(expert > 1.0, layout.expert_imbalance, 1.0) if experts_apart else 1.0,
        micro_sequences=batch.micro_batch_size * (run.method.sequences_per_element * 1.0),
        micro_batches=batch.gradient_accumulation_steps * 1.0,
        virtual_stages=layout.virtual_pipeline * 1.0,
    )


def _expert_tensor(run: Run, expert: Number, tensor: Number) -> Number:
    """Ranks that one expert's matrices are divided over: the caller's word, or what expert ranks leave of the tensor ranks."""
    if run.layout.expert_tensor is not None:
        return run.layout.expert_tensor * 1.0
    # Expert ranks run over tensor ranks first: what tensor ranks are left over divide each expert's matrices.
    return maximum(expert, tensor) / expert


def divides_weights(run: Run) -> bool:
    """Whether sharding divides the weights themselves: by stage 3, on some stacks by stage 2."""
    sharding = run.layout.sharding
    return sharding in FULLY_SHARDED or (sharding == "zero2" and stack_of(run.software, run.precision).sharding.stage_two_keeps_gathered)


def _gradients(run: Run, stack: Stack, shard: Number, expert_shard: Number) -> tuple[Number, Number]:
    """Ranks that the gradients are divided over, and those of experts: none where they are added up before their reduction."""
    if run.layout.sharding not in GRADIENTS_SHARDED:
        return 1.0, 1.0
    over, experts_over = shard, expert_shard
    if run.precision.recipe in stack.accumulates_unsharded:
        several = run.batch.gradient_accumulation_steps > 1
        over, experts_over = where(several, 1.0, over), where(several, 1.0, experts_over)
    if stack.sharding.pipeline_accumulates_unsharded:
        several = run.layout.pipeline > 1
        over, experts_over = where(several, 1.0, over), where(several, 1.0, experts_over)
    return over, experts_over


def held_on_host(run: Run) -> frozenset[str]:
    """What lies in host memory: of ``states`` (of the optimizer alone), ``optimizer``, ``gradients``, ``parameters``, ``activations``.

    Parameters leave the device only where they are fully sharded, and gradients and optimizer go with them: DeepSpeed refuses
    them without the optimizer (``runtime/zero/stage3.py``), FSDP's ``CPUOffload`` steps where the shards are.
    """
    held = set(run.software.cpu_offload)
    if run.layout.sharding not in FULLY_SHARDED:
        held.discard("parameters")
    if "parameters" in held:
        held |= {"optimizer", "gradients"}
    if "optimizer" in held and stack_of(run.software, run.precision).sharding.offload_moves_gradients:
        held.add("gradients")
    if OPTIMIZERS[run.optimizer.name].paged and "optimizer" not in held:
        held.add("states")
    return frozenset(held)
