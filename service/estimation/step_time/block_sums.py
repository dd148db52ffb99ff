"""What a token meets in all blocks of a model: sizes that no layout changes, summed once and remembered."""

from __future__ import annotations

from dataclasses import dataclass

from ..architecture import Architecture, Attention, Layer
from ..by_identity import ByIdentity
from ..parameters import adapters_of
from ..run import Lora

# Matrices whose input is split by tensor parallelism (their output is whole); of all others the output is split [Shoeybi et al. 2019].
ROW_PARALLEL = frozenset({"attended", "activated", "shared_activated", "cross_attended"})


@dataclass(slots=True)
class BlockSums:
    """Sums over the blocks, for one token; ``decoder`` blocks of encoder-decoder models count by their share of tokens."""

    layers: float = 0.0
    dense: float = 0.0  # multiply-adds of matrices outside routed experts
    experts: float = 0.0  # multiply-adds of routed experts
    dense_weights: float = 0.0
    expert_weights: float = 0.0
    whole_values: float = 0.0  # values read and written at full width, whatever the tensor parallelism
    split_values: float = 0.0  # values divided by it
    expert_values: float = 0.0
    attention: float = 0.0  # multiply-adds of the attention core
    scores: float = 0.0  # heads x keys written by an unfused kernel
    score_chains: float = 0.0  # attention cores
    key_values: float = 0.0
    hidden_elements: float = 0.0  # values that norms and residual additions read and write
    inner_elements: float = 0.0  # values that activations and rotations read and write
    routed: float = 0.0  # values sent to experts and back, one way
    adapter_values: float = 0.0  # inputs and outputs of adapted matrices
    adapter_ranked: float = 0.0  # the same times the rank: multiply-adds of adapters
    kernels: float = 0.0  # launches of a forward pass, roughly
    expert_kernels: float = 0.0  # launches for the experts' products, were all experts on one device
    reductions: float = 0.0  # all-reduces of a forward pass under tensor parallelism


def keys_met(attention: Attention, length: float) -> float:
    """Keys a query meets on average: (s + 1) / 2 when causal, no more than the window."""
    window = attention.window
    if attention.cross or not attention.causal:
        return length if window is None else min(length, float(window))
    if window is None or window >= length:
        return (length + 1.0) / 2.0
    return window - window * (window - 1.0) / (2.0 * length)


@ByIdentity
def block_sums(architecture: Architecture, lora: Lora | None, length: float, decoder_length: float, eager: bool) -> BlockSums:
    """Walk every distinct block once."""
    out = BlockSums()
    for layer, count in architecture.kinds():
        decoder = architecture.encoder_decoder and layer.kind != "encoder"
        own = decoder_length if decoder else length
        blocks = float(count) * (own / length)
        kernels = 8.0 + 2.0 * layer.norms
        kernels += _add_matrices(out, layer, blocks)
        kernels += _add_adapters(out, layer, blocks, lora)
        for core in (layer.attention, layer.cross_attention):
            if core is not None:
                kernels += _add_attention(out, core, blocks, keys=length if core.cross else own, eager=eager)
        kernels += _add_elementwise(out, layer, blocks, float(architecture.hidden))
        out.layers += blocks
        out.kernels += blocks * kernels
        out.reductions += blocks * (1.0 if layer.parallel_residual else 2.0)
    return out


def _add_matrices(out: BlockSums, layer: Layer, blocks: float) -> float:
    """Matrix products; answers with the launches of one block, experts' apart."""
    kernels = 0.0
    for matrix in layer.matrices:
        if not matrix.per_token:
            continue
        size = float(matrix.inputs * matrix.outputs)
        if matrix.part == "experts":
            out.experts += blocks * size * matrix.active_copies
            out.expert_weights += blocks * size * matrix.copies
            out.expert_values += blocks * (matrix.inputs + matrix.outputs) * matrix.active_copies
            out.expert_kernels += blocks * matrix.copies
            continue
        kernels += 1.0
        out.dense += blocks * size
        out.dense_weights += blocks * size
        row = matrix.reads in ROW_PARALLEL
        out.split_values += blocks * (matrix.inputs if row else matrix.outputs)
        out.whole_values += blocks * (matrix.outputs if row else matrix.inputs)
    return kernels


def _add_adapters(out: BlockSums, layer: Layer, blocks: float, lora: Lora | None) -> float:
    """Adapters; answers with the launches of one block."""
    kernels = 0.0
    for entry in adapters_of(lora, layer):
        matrix = entry.matrix
        values = float(matrix.inputs + matrix.outputs) * matrix.active_copies
        kernels += 5.0
        out.adapter_values += blocks * values
        out.adapter_ranked += blocks * values * entry.rank
    return kernels


def _add_attention(out: BlockSums, core: Attention, blocks: float, *, keys: float, eager: bool) -> float:
    """An attention core over so many ``keys``; answers with the launches of one block."""
    queries, values = float(core.query_heads * core.query_key_dim), float(core.query_heads * core.value_dim)
    met = keys if eager else keys_met(core, keys)
    out.attention += blocks * met * (queries + values)
    out.scores += blocks * core.query_heads * keys
    out.score_chains += blocks
    out.key_values += blocks * core.key_value_heads * (core.query_key_dim + core.value_dim)
    if core.rotary:
        out.inner_elements += blocks * 2.0 * (queries + float(core.key_value_heads * core.query_key_dim))
    return 6.0 if eager else 1.0


def _add_elementwise(out: BlockSums, layer: Layer, blocks: float, hidden: float) -> float:
    """Norms, residuals, activations and routing; answers with the launches that routing adds to a block's."""
    mlp = layer.mlp
    # A norm reads and writes, a residual addition reads two values and writes one.
    out.hidden_elements += blocks * (2.0 * layer.norms + 6.0) * hidden
    active = float(mlp.intermediate) * (mlp.experts_per_token if mlp.experts else 1.0) + mlp.shared_intermediate
    out.inner_elements += blocks * (3.0 if mlp.gated else 2.0) * active
    if not mlp.experts:
        return 0.0
    out.routed += blocks * hidden * mlp.experts_per_token
    return 24.0  # routing, permutation and its way back
