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
        _add(out, architecture, layer, float(count) * (own / length), own, length, lora, eager)
    return out


def _add(
    out: BlockSums, architecture: Architecture, layer: Layer, n: float, own: float, encoder: float, lora: Lora | None, eager: bool
) -> None:
    hidden, mlp = float(architecture.hidden), layer.mlp
    kernels = 8.0 + 2.0 * layer.norms
    for m in layer.matrices:
        if not m.per_token:
            continue
        size = float(m.inputs * m.outputs)
        if m.part == "experts":
            out.experts += n * size * m.active_copies
            out.expert_weights += n * size * m.copies
            out.expert_values += n * (m.inputs + m.outputs) * m.active_copies
            out.expert_kernels += n * m.copies
            continue
        kernels += 1.0
        out.dense += n * size
        out.dense_weights += n * size
        row = m.reads in ROW_PARALLEL
        out.split_values += n * (m.inputs if row else m.outputs)
        out.whole_values += n * (m.outputs if row else m.inputs)
    for entry in adapters_of(lora, layer):
        matrix = entry.matrix
        values = float(matrix.inputs + matrix.outputs) * matrix.active_copies
        kernels += 5.0
        out.adapter_values += n * values
        out.adapter_ranked += n * values * entry.rank
    for kind in (layer.attention, layer.cross_attention):
        if kind is None:
            continue
        queries, values = float(kind.query_heads * kind.query_key_dim), float(kind.query_heads * kind.value_dim)
        length = encoder if kind.cross else own
        keys = length if eager else keys_met(kind, length)
        out.attention += n * keys * (queries + values)
        out.scores += n * kind.query_heads * length
        out.score_chains += n
        out.key_values += n * kind.key_value_heads * (kind.query_key_dim + kind.value_dim)
        if kind.rotary:
            out.inner_elements += n * 2.0 * (queries + float(kind.key_value_heads * kind.query_key_dim))
        kernels += 6.0 if eager else 1.0
    # A norm reads and writes, a residual addition reads two values and writes one.
    out.hidden_elements += n * (2.0 * layer.norms + 6.0) * hidden
    active = float(mlp.intermediate) * (mlp.experts_per_token if mlp.experts else 1.0) + mlp.shared_intermediate
    out.inner_elements += n * (3.0 if mlp.gated else 2.0) * active
    if mlp.experts:
        out.routed += n * hidden * mlp.experts_per_token
        kernels += 24.0  # routing, permutation and its way back
    out.layers += n
    out.kernels += n * kernels
    out.reductions += n * (1.0 if layer.parallel_residual else 2.0)
