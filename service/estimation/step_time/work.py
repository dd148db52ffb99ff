"""What one device does in one optimizer step, as counts: FLOPs, bytes and kernels. No speed enters here.

Counts are those of one micro-batch and one device, averaged over the pipeline's stages, unless their name says otherwise; all
of them broadcast over arrays of layouts and batches. ``seconds.py`` turns them into time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..numeric import Number, ceil_divide, floor, where
from ..parameters import Parameters
from ..placement import Placement, held_on_host, place
from ..recomputation import repeated
from ..run import Run
from ..stacks import stack_of
from . import communication
from .communication import WIDTH, Transfer
from .sums import Sums, sums


@dataclass(slots=True)
class Pass:
    """One pass of a micro-batch: forward, backward or recomputation."""

    matrix_flops: Number
    expert_flops: Number
    matrix_bytes: Number  # operands and results of the matrix products
    attention_flops: Number
    attention_bytes: Number  # scores written and read by an unfused kernel
    elementwise_bytes: Number
    kernels: Number


@dataclass(slots=True, kw_only=True)
class Work:
    """All counts of a step."""

    forward: Pass
    backward: Pass
    recompute: Pass
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


# Times that scores pass through memory: product, mask and scaling, softmax, dropout, product; and back.
SCORE_MOVES, SCORE_MOVES_BACK = 6.0, 8.0
UNFUSED_KERNELS = 8.0


def unfused(run: Run) -> Number:
    """1 where eager attention has no fused softmax to use, else 0."""
    multiple = stack_of(run.software, run.precision).blocks.attention.fused_softmax_multiple
    if run.attention != "eager":
        return 0.0
    if multiple is None:
        return 1.0
    quads = run.batch.micro_batch_size * 1.0 * run.architecture.layers[0].attention.query_heads / run.layout.tensor / multiple
    return where(quads == floor(quads), 0.0, 1.0)


def trained_share(run: Run, parameters: Parameters) -> float:
    """Share of the matrices whose own gradients are computed."""
    if run.method.lora is not None:
        return 0.0
    return min(1.0, float(parameters.trainable or 0) / float(parameters.total or 1))


@dataclass(frozen=True, slots=True)
class Shape:
    """Sequences as the kernels see them."""

    length: float  # positions of a full sequence (of the encoder where there are two)
    decoder_length: float
    sequences: float = 1.0  # in one batch element: 2 for pairs
    fill: Number = 1.0  # mean length over the full length, where samples are padded to less
    square: Number = 1.0  # keys that a position meets, over those in a full sequence


def work_of(run: Run, parameters: Parameters, shape: Shape) -> Work:
    """Counts of a step over sequences of that shape."""
    layout, architecture, node, placed = run.layout, run.architecture, communication.node_size(run), place(run)
    tp, pp = layout.tensor * 1.0, layout.pipeline * 1.0
    s = sums(architecture, run.method.lora, shape.length, shape.decoder_length, run.attention == "eager")
    tokens = run.batch.micro_batch_size * (shape.length * shape.sequences) * shape.fill / layout.context
    split = tokens / tp
    mtp = architecture.multi_token_prediction_layers
    share = (1.0 + mtp / s.layers) / pp
    trained = trained_share(run, parameters)
    forward, backward, recompute = _passes(run, s, placed, tokens, split, share, trained, shape.square)
    passes = 3.0 if run.activation_checkpointing == "full" else 2.0
    accumulated = 2.0 * float(run.precision.gradient_bytes) * trained
    accumulated = accumulated * (s.dense_weights / tp + s.expert_weights / placed.expert_split) * share

    head = architecture.head
    head_weights = float(head.inputs * head.outputs) * (1.0 + mtp) if head is not None else 0.0
    head_values = (head.inputs + head.outputs / tp) * (1.0 + mtp) if head is not None else 0.0
    rounds = 2.0 + (trained if "lm_head" not in run.method.frozen else 0.0)
    logits = split * (float(head.outputs) * (1.0 + mtp) if head is not None and head.per_token else 0.0)

    held = communication.held_parameters(run, parameters, placed)
    gathered, once = communication.sharding(run, held, placed, s.layers, node)
    stepped = held.trained_dense / placed.states_over + held.trained_experts / placed.expert_states_over
    precision, on_host = run.precision, held_on_host(run)
    own = float(precision.weight_bytes) if run.method.lora is None else run.method.lora.adapter_bytes
    state = 2.0 * (own + float(precision.master_weight_bytes) + float(precision.optimizer_state_bytes)) + 2.0 * float(
        precision.gradient_bytes
    )
    saved = WIDTH * float(architecture.hidden) * s.layers * share * (tokens if not layout.sequence_parallel else split)
    if run.activation_checkpointing != "full":
        saved = saved * 17.0  # 34 s b h bytes a block (Korthikanti et al. 2022, equation 1, without the scores)
    steps_on_host = "optimizer" in on_host
    # Offloaded weights come for every pass of a micro-batch, and its gradients go.
    streamed: Number = 0.0
    if "parameters" in on_host:
        dense = (held.dense * passes + held.trained_dense) / placed.weights_over
        streamed = WIDTH * (dense + (held.experts * passes + held.trained_experts) / placed.expert_weights_over)
    devices, per_node = (1, 1) if run.hardware is None else (run.hardware.device_count, run.hardware.devices_per_node)
    layers = float(len(architecture.layers))
    return Work(
        forward=forward,
        backward=backward,
        recompute=recompute,
        accumulated_bytes=accumulated,
        head_flops=2.0 * split * head_weights * rounds if head is not None and head.per_token else tokens * 0.0,
        head_bytes=WIDTH * (tokens * head_values * rounds + 2.0 * head_weights / tp),
        logits=logits,
        tensor=communication.tensor(run, s, tokens, passes, node).times(share),
        context=communication.context(run, s, tokens, passes, node).times(share),
        expert=communication.expert(run, s, tokens, passes, node).times(share),
        pipeline=communication.pipeline(run, tokens, node),
        sharding=gathered,
        data=once,
        dequantized_weights=0.0 if run.method.quantization is None else s.dense_weights * passes / (tp * pp),
        offload_bytes=streamed + (2.0 * saved if "activations" in on_host else 0.0),
        step_offload_bytes=2.0 * WIDTH * stepped if steps_on_host else 0.0,
        host_stepped=stepped * float(min(devices, per_node)) if steps_on_host else 0.0,
        optimizer_bytes=0.0 if steps_on_host else state * stepped,
        micro_batches=run.batch.gradient_accumulation_steps * 1.0,
        stages=pp,
        interleaving=layout.virtual_pipeline * 1.0,
        largest_share=ceil_divide(layers, pp) * pp / layers,
        last_share=floor(layers / pp) * pp / layers,
    )


def _passes(
    run: Run, s: Sums, placed: Placement, tokens: Number, split: Number, share: Number, trained: float, square: Number
) -> tuple[Pass, Pass, Pass]:
    """Forward, backward (inputs' gradients, and weights' where they train) and what is recomputed."""
    layout = run.layout
    whole = split if layout.sequence_parallel else tokens
    dense, routed, low_rank = 2.0 * split * s.dense, 2.0 * split * s.experts, 2.0 * split * s.adapter_ranked
    weights = WIDTH * (s.dense_weights / layout.tensor + s.expert_weights / placed.expert_split)
    values = WIDTH * (tokens * s.whole_values + split * (s.split_values + s.expert_values))
    attention, missing = 2.0 * split * s.attention * square, unfused(run)
    scores = WIDTH * split * s.scores * square * (1.0 + missing) if run.attention == "eager" else 0.0
    # Grouped products are launched expert by expert (Transformer Engine, GroupedLinear).
    kernels = (s.kernels + s.expert_kernels / layout.expert + missing * UNFUSED_KERNELS * s.score_chains) * share
    # Routed values are permuted to the experts and back; adapters read their input and add to the output.
    elementwise = WIDTH * (whole * s.hidden_elements + split * (s.inner_elements + 4.0 * s.routed + 4.0 * s.adapter_values)) * share
    forward = Pass(
        (dense + low_rank) * share,
        routed * share,
        (values + weights) * share,
        attention * share,
        scores * SCORE_MOVES * share,
        elementwise,
        kernels,
    )
    backward = Pass(
        (dense * (1.0 + trained) + 2.0 * low_rank) * share,
        routed * (1.0 + trained) * share,
        (values * (1.0 + trained) + weights) * share,
        # A fused kernel repeats the scores on the way back: 2.5 times forward (Dao 2023).
        attention * (2.0 if run.attention == "eager" else 2.5) * share,
        scores * SCORE_MOVES_BACK * share,
        2.0 * elementwise,
        2.0 * kernels,
    )
    again = repeated(run)
    recompute = Pass(
        forward.matrix_flops * again.products,
        forward.expert_flops * again.products,
        forward.matrix_bytes * again.products,
        forward.attention_flops * again.attention,
        forward.attention_bytes * again.attention,
        forward.elementwise_bytes * again.elementwise,
        forward.kernels * again.launches,
    )
    return forward, backward, recompute
