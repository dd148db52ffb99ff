"""Counts into seconds at given rates: the one place where a step's time is put together."""

from __future__ import annotations

from dataclasses import dataclass

from ..numeric import Number, maximum
from .communication import Transfer
from .counts import PassCounts, StepCounts


@dataclass(slots=True, kw_only=True)
class Rates:
    """Speeds of a run's device, links and stack: per second unless the name says seconds or exposed (a share)."""

    matrix: Number
    expert: Number
    head: Number
    matrix_bytes: Number
    attention: Number
    attention_bytes: Number
    elementwise: Number
    logits: Number
    accumulation: Number
    optimizer: Number
    dequantized: Number
    host_link: Number
    intra: Number
    inter: Number
    kernel_seconds: Number  # on the device, between kernels
    kernel_host_seconds: Number  # on the host, to launch one
    message_seconds: Number
    message_host_seconds: Number
    stage_message_seconds: Number
    step_seconds: Number
    tensor_exposed: Number
    context_exposed: Number
    expert_exposed: Number
    sharding_exposed: Number  # share that no compute hides
    sharding_cover: Number  # share of the compute that may hide the rest
    data_exposed: Number
    residual: Number = 1.0


# What each part is, for its item; all hold for the average device and the micro-batches of one step.
FORMULAS = {
    "matrix": "matrix FLOPs, forward and backward, head included / (peak x efficiency) + operand bytes / memory bandwidth",
    "attention": "attention FLOPs / (16-bit peak x the kernel's efficiency), scores of an unfused kernel / memory bandwidth",
    "memory_bound": "bytes of norms, residuals, activations, routing, logits and gradient accumulation / (memory bandwidth x efficiency)",
    "recompute": "what checkpointing repeats of the forward pass, at the same rates",
    "dequantization": "weights of a quantised base unpacked in every pass / weights unpacked a second",
    "launch": "gaps between kernels, and the host's launches that the device waits for",
    "tensor_communication": "2 all-reduces of the hidden state a block and pass over the slower link, what is not hidden",
    "context_communication": "keys and values around the ring of context ranks, what is not hidden",
    "expert_communication": "tokens to their experts and back, what is not hidden",
    "pipeline_communication": "hidden states and their gradients between stages",
    "sharding_communication": "weights gathered and gradients scattered for every micro-batch, what the compute does not cover",
    "offload": "bytes to the host and back / host link, what the compute does not cover, and the host's own optimizer step",
    "pipeline_imbalance": "micro-batches x (slowest stage - mean stage)",
    "pipeline_bubble": "(all stages - the slowest) / virtual stages, once a step",
    "data_communication": "gradients and weights exchanged once a step, what is not hidden",
    "optimizer": "bytes of weights, gradients and states / memory bandwidth",
    "overhead": "a constant of every step",
}


# Parameters that a node's host steps a second: DeepSpeed's CPU-Adam takes 2.57 s for 10 billion on the host of a DGX-2 (ZeRO-Offload,
# arXiv 2101.06840, section 6, table of Adam latencies); PyTorch's own takes several times that.
HOST_STEPS_PER_SECOND = 10e9 / 2.57


def moved(transfer: Transfer, rates: Rates) -> Number:
    """Seconds of a collective: the slower of both kinds of link, and a latency for each message."""
    return maximum(transfer.intra / rates.intra, transfer.inter / rates.inter) + transfer.messages * rates.message_seconds


def _pass(counts: PassCounts, rates: Rates) -> tuple[Number, Number, Number]:
    matrix = counts.matrix_flops / rates.matrix + counts.expert_flops / rates.expert + counts.matrix_bytes / rates.matrix_bytes
    attention = counts.attention_flops / rates.attention + counts.attention_bytes / rates.attention_bytes
    return matrix, attention, counts.elementwise_bytes / rates.elementwise


def parts_of(counts: StepCounts, rates: Rates) -> dict[str, Number]:
    """Seconds of every part of a step; they add up to the step."""
    m, p = counts.micro_batches, counts.stages
    forward_matrix, forward_attention, forward_rest = _pass(counts.forward, rates)
    backward_matrix, backward_attention, backward_rest = _pass(counts.backward, rates)
    again_matrix, again_attention, again_rest = _pass(counts.recompute, rates)
    matrix, attention = forward_matrix + backward_matrix, forward_attention + backward_attention
    memory = forward_rest + backward_rest + counts.accumulated_bytes / rates.accumulation
    recompute = again_matrix + again_attention + again_rest
    dequantization = counts.dequantized_weights / rates.dequantized
    tensor = moved(counts.tensor, rates) * rates.tensor_exposed
    context = moved(counts.context, rates) * rates.context_exposed
    expert = moved(counts.expert, rates) * rates.expert_exposed
    pipeline = moved(counts.pipeline, rates) + counts.pipeline.messages * rates.stage_message_seconds
    compute = matrix + attention + memory + recompute + dequantization
    busy = compute + tensor + context + expert

    # Weights are gathered ahead under the compute of the layer before; what does not fit stands still.
    gathering = moved(counts.sharding, rates)
    sharding = gathering * rates.sharding_exposed
    sharding = sharding + maximum(0.0, gathering * (1.0 - rates.sharding_exposed) - busy * rates.sharding_cover)
    offload = maximum(0.0, counts.offload_bytes / rates.host_link - busy)
    busy = busy + sharding + offload

    # The host launches kernels one after the other: a device that is faster than its host waits.
    kernels = counts.forward.kernels + counts.backward.kernels + counts.recompute.kernels
    gaps = kernels * rates.kernel_seconds
    host = kernels * rates.kernel_host_seconds + counts.tensor.messages * rates.message_host_seconds
    launch = gaps + maximum(0.0, host - busy - gaps)

    # 1F1B: every micro-batch takes as long as the slowest stage, filling and draining costs one pass through the others,
    # divided by the virtual stages of an interleaved schedule (Narayanan et al. 2021). The head is on the last stage.
    layers = busy + launch + pipeline
    head_matrix = counts.head_flops / rates.head + counts.head_bytes / rates.matrix_bytes
    head_rest = counts.logits / rates.logits
    head = head_matrix + head_rest
    slowest = maximum(layers * counts.largest_share, layers * counts.last_share + head)
    mean = layers + head / p
    r = rates.residual
    each = m * r
    return {
        "matrix": (matrix + head_matrix / p) * each,
        "attention": attention * each,
        "memory_bound": (memory + head_rest / p) * each,
        "recompute": recompute * each,
        "dequantization": dequantization * each,
        "launch": launch * each,
        "tensor_communication": tensor * each,
        "context_communication": context * each,
        "expert_communication": expert * each,
        "pipeline_communication": pipeline * each,
        "sharding_communication": sharding * each,
        "offload": (offload * m + counts.step_offload_bytes / rates.host_link + counts.host_stepped / HOST_STEPS_PER_SECOND) * r,
        "pipeline_imbalance": (slowest - mean) * each,
        "pipeline_bubble": (p * mean - slowest) / counts.interleaving * r,
        "data_communication": moved(counts.data, rates) * rates.data_exposed * r,
        "optimizer": counts.optimizer_bytes / rates.optimizer * r,
        "overhead": rates.step_seconds * r + m * 0.0,
    }
