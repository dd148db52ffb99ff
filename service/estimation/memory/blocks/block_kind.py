"""The kinds of blocks of a model: how often each occurs, its weights, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...architecture import Architecture, Layer
from ...by_identity import ByIdentity
from ...parameters import Adapted, Trained, adapters_of, trained
from ...run import Method
from .adapted_mlp import AdaptedMlp, adapted_mlp
from .coefficients import Computing, GradientFlow, Kept
from .modules import block, feed_forward


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWeights:
    """The weights of one block, in elements."""

    split: float  # divided by tensor parallelism
    whole: float  # on every tensor-parallel rank
    experts: float  # divided by expert parallelism
    matrices: float  # of all these, those of matrices
    largest: float  # of its largest matrix
    outputs: float  # elements per token, of the matrices whose outputs selective checkpointing may keep
    trained_split: float
    trained_whole: float
    trained_experts: float
    trained_attention: float  # of ``trained_split``


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockKind:
    """One kind of block: blocks of the same shape of which the same is trained."""

    layer: Layer
    indices: tuple[int, ...]  # where in the model
    decoder: bool  # reads the decoder's tokens of an encoder-decoder model
    weights: BlockWeights
    quantized: bool  # matrices are held in 4 or 8 bits
    kept: Kept  # without checkpointing
    kept_feed_forward: Kept  # of it, by the MLP or experts
    adapters: float  # weights
    adapter_casts: float  # bytes of the copies of adapters in the width of the experts' weights that PEFT folds them into
    adapted_mlp: AdaptedMlp | None  # moments inside an MLP that has adapters
    expert_gradient: float  # weights of the stack of experts whose gradient stands while most of the block is kept
    intermediate: float  # width of the widest value inside, all active experts together


@dataclass(frozen=True, slots=True)
class AtFirst:
    """What the first block of a stack keeps beyond its kind: what its successors share, and what the model's input asks for."""

    index: int
    kept: Kept
    decoder: bool


@ByIdentity
def kinds_of(model: Architecture, method: Method, how: Computing, checkpointed: bool) -> tuple[tuple[BlockKind, ...], tuple[AtFirst, ...]]:
    """The kinds of a model, and what the first block of each of its stacks keeps beyond its kind. No length decides, and no loss."""
    parts, lora = trained(model, method), method.lora
    # A block has a backward pass where something below it or in it is trained.
    lowest = next((i for i in range(len(model.layers)) if i not in parts.frozen_layers), len(model.layers))
    inputs_need_gradients = parts.embeddings or checkpointed or (lora is not None and lora.input_grads)
    places: dict[tuple[int, bool, bool], list[int]] = {}
    for i, layer in enumerate(model.layers):
        reached = parts.embeddings or how.adapter is not None or i >= lowest
        places.setdefault((id(layer), parts.layer(i), reached), []).append(i)
    kinds: list[BlockKind] = []
    firsts: list[AtFirst] = []
    begun: set[str] = set()
    for (_, own, reached), indices in places.items():
        layer = model.layers[indices[0]]
        adapted = adapters_of(lora, layer)
        flow = GradientFlow(
            attention=own and parts.part("attention"),
            mlp=own and parts.part("mlp"),
            norms=own and parts.part("norms"),
            reached=reached,
            adapted=frozenset(entry.matrix.name for entry in adapted),
        )
        decoder = model.encoder_decoder and layer.kind == "decoder"
        kept = block(how, layer, flow)
        stack = layer.kind if model.encoder_decoder else ""
        if stack not in begun:
            begun.add(stack)
            at_first = block(how, layer, replace(flow, into_input=inputs_need_gradients or own), first=True)
            firsts.append(AtFirst(indices[0], at_first - kept, decoder))
        weights, mlp = _weights(layer, parts if own else None), layer.mlp
        kinds.append(
            BlockKind(
                layer=layer,
                indices=tuple(indices),
                decoder=decoder,
                weights=weights,
                quantized=method.quantization is not None,
                kept=kept,
                kept_feed_forward=feed_forward(how, layer, flow) if reached else Kept(),
                adapters=float(sum(entry.parameters for entry in adapted)),
                adapter_casts=_adapter_casts(how, adapted),
                adapted_mlp=adapted_mlp(how, layer, flow) if reached else None,
                expert_gradient=_expert_gradient(layer, adapted, weights.trained_experts > 0),
                intermediate=float(mlp.intermediate * (mlp.experts_per_token if mlp.experts else 1) + mlp.shared_intermediate),
            )
        )
    return tuple(kinds), tuple(firsts)


def _weights(layer: Layer, parts: Trained | None) -> BlockWeights:
    """``parts``: what is trained of the block; None where all of it is frozen."""

    def trains(part: str) -> bool:
        return parts is not None and parts.part(part)

    split = experts = matrices = outputs = largest = 0
    trained_split = trained_experts = trained_attention = 0
    whole = sum(v.size for v in layer.vectors)
    trained_whole = sum(v.size for v in layer.vectors if trains(v.part))
    for m in layer.matrices:
        own = m.parameters if trains(m.part) else 0
        matrices += m.weights
        largest = max(largest, m.inputs * m.outputs)
        if m.part == "experts":
            experts, trained_experts = experts + m.parameters, trained_experts + own
        elif m.part == "router":
            whole, trained_whole = whole + m.parameters, trained_whole + own
        else:
            split, trained_split = split + m.parameters, trained_split + own
            outputs += m.outputs if m.reads not in ("attended", "activated") else 0
        trained_attention += own if m.part == "attention" else 0
    return BlockWeights(
        split=float(split),
        whole=float(whole),
        experts=float(experts),
        matrices=float(matrices),
        largest=float(largest),
        outputs=float(outputs),
        trained_split=float(trained_split),
        trained_whole=float(trained_whole),
        trained_experts=float(trained_experts),
        trained_attention=float(trained_attention),
    )


def _adapter_casts(how: Computing, adapted: tuple[Adapted, ...]) -> float:
    """PEFT's ``ParamWrapper.get_delta_factors`` casts both factors to the weights' width; ``baddbmm`` saves what it read.

    The low-rank products of single matrices (a router) go through ``get_delta_weight``, which saves the adapters themselves.
    """
    width = how.residual
    if how.adapter is None or how.adapter.element_bytes == width:
        return 0.0
    return width * sum(entry.parameters for entry in adapted if entry.matrix.lora_materialized and entry.matrix.copies > 1)


def _expert_gradient(layer: Layer, adapted: tuple[Adapted, ...], trained: bool) -> float:
    """Weights of the stack that the backward pass of the experts reaches first: the down projection's, unless it is frozen.

    The gradient of a sum W + BA is as large as W, whatever the rank: autograd forms it before it reaches A and B.
    """
    stacks = [m for m in layer.matrices if m.part == "experts"]
    if not trained:
        materialised = {entry.matrix.name for entry in adapted if entry.matrix.lora_materialized}
        stacks = [m for m in stacks if m.name in materialised]
    down = sum(m.weights for m in stacks if m.reads == "activated")
    return float(down or sum(m.weights for m in stacks))
