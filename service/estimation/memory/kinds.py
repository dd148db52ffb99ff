"""The kinds of blocks of a model: how often each occurs, its parameters, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..architecture import Architecture, Layer
from ..parameters import Adapted, adapters_of, trained
from ..parameters import Trained as TrainedParts
from ..run import Method
from ..stacks.profile import RESIDUAL, BlockRule, Mode
from .activations import Adapter, Kept, Trained, block, feed_forward, norm_rule
from .adapted import Inside, inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of block; weights in elements."""

    layer: Layer
    indices: tuple[int, ...]
    kept: Kept  # without checkpointing
    kept_feed_forward: Kept  # of it, by the MLP or experts
    trained_attention: float  # trained weights of attention, split
    split: float  # weights that tensor parallelism divides
    whole: float  # weights on every tensor-parallel rank
    experts: float  # weights that expert parallelism divides
    quantized: bool  # matrices are held in 4 or 8 bits
    matrices: float  # matrix weights, experts included
    adapters: float
    adapter_casts: float  # bytes of the copies of adapters in the width of the experts' weights that PEFT folds them into
    expert_gradient: float  # weights of the stack of experts whose gradient stands while most of the block is kept
    trained_split: float  # of its own weights
    trained_whole: float
    trained_experts: float
    outputs: float  # per token, of the matrices whose outputs selective checkpointing may keep
    intermediate: float  # width of the widest value inside, all active experts together
    largest: float  # weights of its largest matrix
    adapted: Inside | None  # moments inside an MLP that has adapters
    decoder: bool  # reads the decoder's tokens of an encoder-decoder model


def kinds_of(
    model: Architecture, method: Method, rules: BlockRule, mode: Mode, fused: bool, adapter: Adapter | None, *, checkpointed: bool
) -> tuple[tuple[Kind, ...], tuple[tuple[int, Kept, bool], ...]]:
    """The kinds of a model, and what the first block of each of its stacks keeps beyond its kind."""
    parts, lora = trained(model, method), method.lora
    # A block has a backward pass where something below it or in it is trained.
    lowest = next((i for i in range(len(model.layers)) if i not in parts.layers), len(model.layers))
    inputs_need_gradients = parts.embeddings or checkpointed or (lora is not None and lora.input_grads)
    places: dict[tuple[int, bool, bool], list[int]] = {}
    for i, layer in enumerate(model.layers):
        reached = parts.embeddings or adapter is not None or i >= lowest
        places.setdefault((id(layer), parts.layer(i), reached), []).append(i)
    kinds: list[Kind] = []
    firsts: list[tuple[int, Kept, bool]] = []
    begun: set[str] = set()
    for (_, own, reached), indices in places.items():
        layer = model.layers[indices[0]]
        adapted = adapters_of(lora, layer)
        flags = Trained(
            attention=own and parts.part("attention"),
            mlp=own and parts.part("mlp"),
            norms=own and parts.part("norms"),
            reached=reached,
            adapter=adapter,
            adapted=frozenset(entry.matrix.name for entry in adapted),
        )
        decoder = model.encoder_decoder and layer.kind == "decoder"
        kept = block(rules, model.hidden, layer, mode, fused, flags)
        stack = layer.kind if model.encoder_decoder else ""
        if stack not in begun:
            begun.add(stack)
            at_first = replace(flags, input_gradient=inputs_need_gradients or own)
            more = block(rules, model.hidden, layer, mode, fused, at_first, True)
            firsts.append((indices[0], more + kept.scaled(-1.0), decoder))
        in_mlp = feed_forward(rules, model.hidden, layer, mode, flags) if reached else Kept()
        kinds.append(
            _kind(
                layer,
                tuple(indices),
                kept,
                in_mlp,
                parts,
                own,
                method.quantization is not None,
                adapted,
                adapter,
                mode,
                inside(rules, norm_rule(rules, layer), model.hidden, layer, mode, flags) if reached else None,
                decoder,
            )
        )
    return tuple(kinds), tuple(firsts)


def _kind(
    layer: Layer,
    indices: tuple[int, ...],
    kept: Kept,
    in_mlp: Kept,
    parts: TrainedParts,
    own: bool,
    quantized: bool,
    adapted: tuple[Adapted, ...],
    adapter: Adapter | None,
    mode: Mode,
    in_adapted: Inside | None,
    decoder: bool,
) -> Kind:
    split = experts = matrices = outputs = largest = 0
    trained_split = trained_experts = 0
    whole = sum(v.size for v in layer.vectors)
    trained_whole = sum(v.size for v in layer.vectors if own and parts.part(v.part))
    for m in layer.matrices:
        trains = m.parameters if own and parts.part(m.part) else 0
        matrices += m.weights
        largest = max(largest, m.inputs * m.outputs)
        if m.part == "experts":
            experts, trained_experts = experts + m.parameters, trained_experts + trains
        elif m.part == "router":
            whole, trained_whole = whole + m.parameters, trained_whole + trains
        else:
            split, trained_split = split + m.parameters, trained_split + trains
            outputs += m.outputs if m.reads not in ("attended", "activated") else 0
    mlp = layer.mlp
    return Kind(
        layer=layer,
        indices=indices,
        kept=kept,
        kept_feed_forward=in_mlp,
        trained_attention=float(sum(m.parameters for m in layer.matrices if m.part == "attention" and own and parts.part("attention"))),
        split=float(split),
        whole=float(whole),
        experts=float(experts),
        quantized=quantized,
        matrices=float(matrices),
        adapters=float(sum(entry.parameters for entry in adapted)),
        adapter_casts=_adapter_casts(adapted, adapter, mode),
        expert_gradient=_expert_gradient(layer, adapted, trained_experts > 0),
        trained_split=float(trained_split),
        trained_whole=float(trained_whole),
        trained_experts=float(trained_experts),
        outputs=float(outputs),
        intermediate=float(mlp.intermediate * (mlp.experts_per_token if mlp.experts else 1) + mlp.shared_intermediate),
        largest=float(largest),
        adapted=in_adapted,
        decoder=decoder,
    )


def _adapter_casts(adapted: tuple[Adapted, ...], adapter: Adapter | None, mode: Mode) -> float:
    """PEFT's ``ParamWrapper.get_delta_factors`` casts both factors to the weights' width; ``baddbmm`` saves what it read.

    The low-rank products of single matrices (a router) go through ``get_delta_weight``, which saves the adapters themselves.
    """
    width = RESIDUAL[mode]
    if adapter is None or adapter.element_bytes == width:
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
