"""What one device does in one optimizer step, as counts: FLOPs, bytes and kernels. No speed enters here.

Counts are those of one micro-batch and one device, averaged over the pipeline's stages, unless their name says otherwise; all
of them broadcast over arrays of layouts and batches. ``seconds.py`` turns them into time. Records are named tuples: each quote makes a
dozen, and frozen dataclasses take three times as long.
"""

from __future__ import annotations

from typing import NamedTuple

from ..numeric import Number, ceil_divide, floor, where
from ..parameters import Parameters
from ..placement import Placement, held_on_host, place
from ..recipes import RECIPES
from ..recomputation import repeated
from ..run import Run
from ..stacks import stack_of
from .block_sums import BlockSums, block_sums
from .communication import Collectives, Held, Transfer, held_parameters
from .predictable import PredictableRun


class PassCounts(NamedTuple):
    """One pass of a micro-batch: forward, backward or recomputation."""

    matrix_flops: Number
    expert_flops: Number
    matrix_bytes: Number  # operands and results of the matrix products
    attention_flops: Number
    attention_bytes: Number  # scores written and read by an unfused kernel
    elementwise_bytes: Number
    kernels: Number


class StepCounts(NamedTuple):
    """All counts of a step."""

    forward: PassCounts
    backward: PassCounts
    recompute: PassCounts
    accumulated_bytes: Number  # gradients added up, micro-batch by micro-batch
    head_flops: Number  # output projection, forward and backward, whole (it is on the last stage)
    head_bytes: Number
    logits: Number  # whole
    tensor: Transfer
    context: Transfer
    expert: Transfer
    pipeline: Transfer
    sharding: Transfer
    data: Transfer  # of a step
    dequantized_weights: Number
    offload_bytes: Number
    step_offload_bytes: Number
    host_stepped: Number  # parameters that a node's host steps for all its devices
    optimizer_bytes: Number  # of a step
    micro_batches: Number
    stages: Number
    interleaving: Number
    largest_share: Number  # layers of the fullest stage over the mean
    last_share: Number  # layers of the last stage over the mean


class SequenceShape(NamedTuple):
    """Sequences as the kernels see them."""

    length: float  # positions of a full sequence (of the encoder where there are two)
    decoder_length: float
    sequences: float = 1.0  # in one batch element: 2 for pairs
    fill: Number = 1.0  # mean length over the full length, where samples are padded to less
    keys_share: Number = 1.0  # keys that a position meets, over those in a full sequence


class MicroBatch(NamedTuple):
    """A micro-batch as one device of a mean stage meets it."""

    run: Run
    placed: Placement
    blocks: BlockSums
    tokens: Number  # on one context rank
    tensor_tokens: Number  # the same over the tensor ranks: what a count is multiplied with that they divide
    stage_share: Number  # blocks of a mean stage over all, those that predict more tokens included
    keys_share: Number
    trained: float  # share of the matrices whose own gradients are computed
    value_bytes: float  # of an activation, and of a weight as a product reads it
    passes: float  # through the blocks: forward, backward, recomputation


# Times that scores pass through memory: product, mask and scaling, softmax, dropout, product; and back.
SCORE_MOVES, SCORE_MOVES_BACK = 6.0, 8.0
UNFUSED_KERNELS = 8.0
# Values of a block that are kept without checkpointing, over the hidden state: 34 s b h bytes of 2 (Korthikanti et al. 2022,
# equation 1, without the scores).
SAVED_VALUES = 17.0


def unfused(run: Run, placed: Placement) -> Number:
    """1 where eager attention has no fused softmax to use, else 0."""
    multiple = stack_of(run.software, run.precision).blocks.attention.fused_softmax_multiple
    if run.attention != "eager":
        return 0.0
    if multiple is None:
        return 1.0
    quads = run.batch.micro_batch_size * 1.0 * run.architecture.layers[0].attention.query_heads / placed.tensor / multiple
    return where(quads == floor(quads), 0.0, 1.0)


def trained_share(run: Run, parameters: Parameters) -> float:
    """Share of the matrices whose own gradients are computed."""
    if run.method.lora is not None:
        return 0.0
    return min(1.0, float(parameters.trainable or 0) / float(parameters.total or 1))


def counts_of(known: PredictableRun, parameters: Parameters, shape: SequenceShape) -> StepCounts:
    """Counts of a step over sequences of that shape."""
    run, placed = known.run, place(known.run)
    blocks = block_sums(run.architecture, run.method.lora, shape.length, shape.decoder_length, run.attention == "eager")
    tokens = run.batch.micro_batch_size * (shape.length * shape.sequences) * shape.fill / placed.context
    batch = MicroBatch(
        run=run,
        placed=placed,
        blocks=blocks,
        tokens=tokens,
        tensor_tokens=tokens / placed.tensor,
        stage_share=(1.0 + run.architecture.multi_token_prediction_layers / blocks.layers) / placed.pipeline,
        keys_share=shape.keys_share,
        trained=trained_share(run, parameters),
        value_bytes=float(RECIPES[run.precision.recipe].activation_bytes),
        passes=3.0 if run.activation_checkpointing == "full" else 2.0,
    )
    collectives = Collectives(
        run=run, placed=placed, blocks=blocks, tokens=tokens, value_bytes=batch.value_bytes, passes=batch.passes, node=known.node_devices
    )
    held = held_parameters(run, parameters, placed)
    each_micro_batch, once_a_step = collectives.sharding(held)
    forward, backward = _there_and_back(batch)
    head_flops, head_bytes, logits = _head(batch)
    stepped = held.trained_dense / placed.states_over + held.trained_experts / placed.expert_states_over
    steps_on_host = "optimizer" in held_on_host(run)
    share, layers = batch.stage_share, float(len(run.architecture.layers))
    weights = blocks.dense_weights / placed.tensor + blocks.expert_weights / placed.expert_split
    quantized = run.method.quantization is not None
    return StepCounts(
        forward=forward,
        backward=backward,
        recompute=_recompute(batch, forward),
        accumulated_bytes=2.0 * float(run.precision.gradient_bytes) * batch.trained * weights * share,
        head_flops=head_flops,
        head_bytes=head_bytes,
        logits=logits,
        tensor=collectives.tensor().times(share),
        context=collectives.context().times(share),
        expert=collectives.expert().times(share),
        pipeline=collectives.pipeline(),
        sharding=each_micro_batch,
        data=once_a_step,
        dequantized_weights=blocks.dense_weights * batch.passes / (placed.tensor * placed.pipeline) if quantized else 0.0,
        offload_bytes=_offloaded_bytes(batch, held),
        step_offload_bytes=2.0 * batch.value_bytes * stepped if steps_on_host else 0.0,
        host_stepped=stepped * float(min(known.hardware.device_count, known.hardware.devices_per_node)) if steps_on_host else 0.0,
        optimizer_bytes=0.0 if steps_on_host else _state_traffic_bytes(run) * stepped,
        micro_batches=placed.micro_batches,
        stages=placed.pipeline,
        interleaving=placed.virtual_stages,
        largest_share=ceil_divide(layers, placed.pipeline) * placed.pipeline / layers,
        last_share=floor(layers / placed.pipeline) * placed.pipeline / layers,
    )


def _there_and_back(batch: MicroBatch) -> tuple[PassCounts, PassCounts]:
    """The forward pass through the blocks of a stage, and back: gradients of the inputs, and of the weights where they train."""
    run, placed, blocks, split, share = batch.run, batch.placed, batch.blocks, batch.tensor_tokens, batch.stage_share
    dense, routed, low_rank = 2.0 * split * blocks.dense, 2.0 * split * blocks.experts, 2.0 * split * blocks.adapter_ranked
    weights = batch.value_bytes * (blocks.dense_weights / placed.tensor + blocks.expert_weights / placed.expert_split)
    values = batch.value_bytes * (batch.tokens * blocks.whole_values + split * (blocks.split_values + blocks.expert_values))
    eager, missing = run.attention == "eager", unfused(run, placed)
    attention = 2.0 * split * blocks.attention * batch.keys_share
    scores = batch.value_bytes * split * blocks.scores * batch.keys_share * (1.0 + missing) if eager else 0.0
    # Routed values are permuted to the experts and back; adapters read their input and add to the output.
    inner = blocks.inner_elements + 4.0 * blocks.routed + 4.0 * blocks.adapter_values
    whole = split if run.layout.sequence_parallel else batch.tokens
    elementwise = batch.value_bytes * (whole * blocks.hidden_elements + split * inner) * share
    # Grouped products are launched expert by expert (Transformer Engine, GroupedLinear).
    kernels = (blocks.kernels + blocks.expert_kernels / placed.expert + missing * UNFUSED_KERNELS * blocks.score_chains) * share
    forward = PassCounts(
        matrix_flops=(dense + low_rank) * share,
        expert_flops=routed * share,
        matrix_bytes=(values + weights) * share,
        attention_flops=attention * share,
        attention_bytes=scores * SCORE_MOVES * share,
        elementwise_bytes=elementwise,
        kernels=kernels,
    )
    backward = PassCounts(
        matrix_flops=(dense * (1.0 + batch.trained) + 2.0 * low_rank) * share,
        expert_flops=routed * (1.0 + batch.trained) * share,
        matrix_bytes=(values * (1.0 + batch.trained) + weights) * share,
        # A fused kernel repeats the scores on the way back: 2.5 times forward (Dao 2023).
        attention_flops=attention * (2.0 if eager else 2.5) * share,
        attention_bytes=scores * SCORE_MOVES_BACK * share,
        elementwise_bytes=2.0 * elementwise,
        kernels=2.0 * kernels,
    )
    return forward, backward


def _recompute(batch: MicroBatch, forward: PassCounts) -> PassCounts:
    """What activation checkpointing repeats of the forward pass."""
    again = repeated(batch.run)
    return PassCounts(
        matrix_flops=forward.matrix_flops * again.products,
        expert_flops=forward.expert_flops * again.products,
        matrix_bytes=forward.matrix_bytes * again.products,
        attention_flops=forward.attention_flops * again.attention,
        attention_bytes=forward.attention_bytes * again.attention,
        elementwise_bytes=forward.elementwise_bytes * again.elementwise,
        kernels=forward.kernels * again.launches,
    )


def _head(batch: MicroBatch) -> tuple[Number, Number, Number]:
    """FLOPs, bytes and logits of the output projection, forward and backward, of all heads that predict."""
    run, tensor, head = batch.run, batch.placed.tensor, batch.run.architecture.head
    if head is None:
        return batch.tokens * 0.0, 0.0, 0.0
    heads = 1.0 + run.architecture.multi_token_prediction_layers
    weights = float(head.inputs * head.outputs) * heads
    values = (head.inputs + head.outputs / tensor) * heads
    rounds = 2.0 + (batch.trained if "lm_head" not in run.method.frozen else 0.0)
    head_bytes = batch.value_bytes * (batch.tokens * values * rounds + 2.0 * weights / tensor)
    if not head.per_token:
        return batch.tokens * 0.0, head_bytes, batch.tensor_tokens * 0.0
    return 2.0 * batch.tensor_tokens * weights * rounds, head_bytes, batch.tensor_tokens * (float(head.outputs) * heads)


def _offloaded_bytes(batch: MicroBatch, held: Held) -> Number:
    """Bytes between device and host for a micro-batch: weights that come for every pass and their gradients, kept activations."""
    run, placed, on_host = batch.run, batch.placed, held_on_host(batch.run)
    streamed: Number = 0.0
    if "parameters" in on_host:
        dense = (held.dense * batch.passes + held.trained_dense) / placed.weights_over
        experts = (held.experts * batch.passes + held.trained_experts) / placed.expert_weights_over
        streamed = batch.value_bytes * (dense + experts)
    if "activations" not in on_host:
        return streamed
    tokens = batch.tensor_tokens if run.layout.sequence_parallel else batch.tokens
    saved = batch.value_bytes * float(run.architecture.hidden) * batch.blocks.layers * batch.stage_share * tokens
    return streamed + 2.0 * (saved if run.activation_checkpointing == "full" else saved * SAVED_VALUES)


def _state_traffic_bytes(run: Run) -> float:
    """Bytes that the optimizer reads and writes of a parameter."""
    precision, lora = run.precision, run.method.lora
    weight = float(precision.weight_bytes) if lora is None else lora.adapter_bytes
    states = weight + float(precision.master_weight_bytes) + float(precision.optimizer_state_bytes)
    return 2.0 * states + 2.0 * float(precision.gradient_bytes)
