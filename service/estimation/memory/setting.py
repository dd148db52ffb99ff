"""What of a run decides its memory, looked up once: the stack's tables, the way it trains, the lengths it reads."""

from __future__ import annotations

from dataclasses import dataclass

from ..architecture import Architecture, Layer, Matrix
from ..parameters import Trained as TrainedParts
from ..parameters import adapters_of, trained
from ..run import Run
from ..stacks import STACKS
from ..stacks.profile import AUTOCAST, HALF, SINGLE, BlockRule, LossRule, Mode, Stack
from .activations import Adapter, Kept, Trained, block

SEQUENCES = {"dpo": 2, "reward_model": 2}  # a batch element is a pair
REFERENCED = frozenset({"dpo", "ppo", "grpo"})  # under adapters the base itself is the reference
EXPERT_IMBALANCE = 1.2  # tokens of the fullest expert rank over the mean, where experts are spread over ranks
SHARDED = ("zero3", "hybrid")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of block: how often, where, its parameters and what it keeps."""

    layer: Layer
    indices: tuple[int, ...]
    kept: Kept  # without checkpointing
    split: float  # weights that tensor parallelism divides
    whole: float  # weights on every tensor-parallel rank
    experts: float  # weights that expert parallelism divides
    quantized: float  # of split, held in 4 or 8 bits
    matrices: float  # matrix weights, that autocast casts
    adapters: float
    trained_split: float  # of its own weights
    trained_whole: float
    trained_experts: float
    outputs: float  # outputs of its matrices in elements per token that selective checkpointing may keep, split
    intermediate: float  # width of the widest value inside, split
    largest: float  # weights of its largest matrix
    decoder: bool  # reads the decoder's tokens of an encoder-decoder model


@dataclass(frozen=True, slots=True)
class Setting:
    """The scalars of a run that memory depends on."""

    stack: Stack
    family: str
    mode: Mode
    rules: BlockRule
    loss: LossRule
    fused: bool  # attention scores are never stored
    kinds: tuple[Kind, ...]
    blocks: int
    hidden: int
    vocabulary: float
    length: int
    decoder_length: int
    sequences: int
    adapter: Adapter | None
    embedding: float
    head: float  # weights of an untied head
    outside: float  # other weights outside the blocks
    trained_embedding: float
    trained_head: float
    trained_outside: float
    outside_adapters: float
    head_trained: bool
    tied_trained: bool  # token table and head are one trained tensor
    norms_trained: bool
    head_per_token: bool
    first_kept: Kept  # what the first blocks keep beyond their kind
    first_blocks: tuple[tuple[int, Kept, bool], ...]  # the same block by block: index, coefficients, decoder
    quantized_head: bool
    kept_scale: float
    reference: bool  # a second, frozen copy of the model answers beside the trained one
    notes: tuple[str, ...]  # what had to be assumed


def longest(run: Run) -> int | None:
    """The longest sequence of the run: it decides the peak, not the mean."""
    if run.sequence_length is None:
        return None
    if run.data.histogram and run.data.packing == "none":
        longest_sample = max(prompt + target for prompt, target, count in run.data.histogram if count)
        return min(longest_sample, run.sequence_length) if run.data.truncation else longest_sample
    return run.sequence_length


def mode_of(run: Run, stack: Stack) -> Mode:
    """16-bit, autocast or 32-bit training."""
    if run.precision.recipe == "fp32":
        return SINGLE
    if run.method.quantization is not None and stack.quantized_mode is not None and not run.software.compile:
        return stack.quantized_mode
    if run.precision.recipe == "bf16_pure" or run.precision.weight_bytes <= 2:
        return HALF
    return stack.mixed_mode if run.layout.sharding in ("none", "zero1") else stack.mixed_sharded_mode


def _adapter(run: Run, stack: Stack, mode: Mode) -> Adapter | None:
    lora = run.method.lora
    if lora is None:
        return None
    mixed = run.precision.recipe.endswith("_mixed")
    return Adapter(
        rank=lora.rank,
        element_bytes=lora.adapter_bytes if stack.adapter_bytes is None else stack.adapter_bytes,
        dropout=lora.dropout > 0,
        autocast=mixed and stack.mixed_mode == AUTOCAST,
    )


def setting(run: Run, table: Stack | None = None) -> Setting | None:
    """The setting of a run; None where shape or sequence length are not known. ``table`` stands in for the stack's own."""
    model, stack = run.architecture, table or STACKS[run.software.stack]
    length = longest(run)
    if not model.shape_known or length is None:
        return None
    mode = mode_of(run, stack)
    rules = stack.compiled_blocks if run.software.compile else stack.blocks
    fused = run.attention != "eager"
    kinds, firsts = _kinds(run, stack, rules, mode, fused)
    method = trained(model, run.method)
    embedding = float(sum(v.size for v in model.embeddings))
    head_weights = float(model.head.parameters) if model.head is not None else 0.0
    head = 0.0 if model.head_tied else head_weights
    outside = float(sum(m.parameters for m in model.outside) + sum(v.size for v in model.outside_vectors))
    head_trained = method.head(model.head_tied)
    outside_adapters = 0.0
    lora = run.method.lora
    if lora is not None:
        outside_adapters = float(sum(m.parameters for m in _saved_modules(model, lora.modules_to_save)))
    return Setting(
        stack=stack,
        family=model.family,
        mode=mode,
        rules=rules,
        loss=_loss(run, stack),
        fused=fused,
        kinds=kinds,
        blocks=len(model.layers),
        hidden=model.hidden,
        vocabulary=float(model.head.outputs) if model.head is not None else 0.0,
        length=length,
        decoder_length=run.decoder_sequence_length or length,
        sequences=SEQUENCES.get(run.method.objective, 1) if run.data.packing != "packed" else 1,
        adapter=_adapter(run, stack, mode),
        embedding=embedding,
        head=head,
        outside=outside,
        trained_embedding=embedding if method.embeddings else 0.0,
        trained_head=head if head_trained else 0.0,
        trained_outside=outside if method.part("norms") else 0.0,
        outside_adapters=outside_adapters,
        head_trained=head_trained,
        tied_trained=model.head_tied and method.embeddings and head_trained,
        norms_trained=method.part("norms"),
        head_per_token=model.head is not None and model.head.per_token,
        first_kept=sum((kept for _, kept, _ in firsts), Kept()),
        first_blocks=firsts,
        quantized_head=stack.quantized_outside,
        kept_scale=(stack.kept_compiled if run.software.compile else stack.kept)
        * (stack.kept_quantized if run.method.quantization is not None else 1.0),
        notes=_notes(run),
        reference=run.method.objective in REFERENCED and run.post_training.reference == "model" and not run.method.adapters,
    )


def _notes(run: Run) -> tuple[str, ...]:
    notes = []
    if run.data.histogram and run.data.packing == "none":
        notes.append(f"the longest sequence decides: {longest(run)} tokens")
    if run.method.objective in REFERENCED:
        if run.method.adapters:
            notes.append("the frozen base is the reference model")
        elif run.post_training.reference == "model":
            notes.append("the reference model is held in 16 bits, sharded like the weights")
    return tuple(notes)


def _saved_modules(model: Architecture, names: tuple[str, ...]) -> list[Matrix]:
    return [model.head] if model.head is not None and any(model.head.name.endswith(n) for n in names) else []


def _loss(run: Run, stack: Stack) -> LossRule:
    if run.software.fused_loss:
        return stack.fused_loss
    if run.software.compile and run.software.logits_dtype_bytes is not None and run.software.logits_dtype_bytes <= 2:
        return stack.compiled_loss
    if run.method.quantization is not None and run.method.quantization.format in stack.loss_by_quantization:
        return stack.loss_by_quantization[run.method.quantization.format]
    for family, rule in stack.loss_by_family.items():
        if run.architecture.family.startswith(family):
            return rule
    return stack.loss


def _kinds(
    run: Run, stack: Stack, rules: BlockRule, mode: Mode, fused: bool
) -> tuple[tuple[Kind, ...], tuple[tuple[int, Kept, bool], ...]]:
    model, lora = run.architecture, run.method.lora
    method = trained(model, run.method)
    adapter = _adapter(run, stack, mode)
    quantized = run.method.quantization is not None
    places: dict[tuple[int, bool, bool], list[int]] = {}
    layers: dict[tuple[int, bool, bool], Layer] = {}
    lowest = min((i for i in range(len(model.layers)) if i not in method.layers), default=len(model.layers))
    embeddings_trained = method.embeddings or (lora is not None and lora.input_grads) or run.activation_checkpointing == "full"
    for i, layer in enumerate(model.layers):
        reached = (embeddings_trained and method.embeddings) or adapter is not None or i >= lowest
        key = (id(layer), method.layer(i), reached)
        places.setdefault(key, []).append(i)
        layers[key] = layer
    kinds: list[Kind] = []
    firsts: list[tuple[int, Kept, bool]] = []
    seen_kinds: set[str] = set()
    for key, indices in places.items():
        layer, own, reached = layers[key], key[1], key[2]
        adapted = adapters_of(lora, layer)
        flags = Trained(
            attention=own and method.part("attention"),
            mlp=own and method.part("mlp"),
            norms=own and method.part("norms"),
            reached=reached,
            adapter=adapter,
            adapted=frozenset(a.matrix.name for a in adapted),
        )
        kept = block(rules, model.family, model.hidden, layer, mode, fused, flags)
        stack_name = layer.kind if model.encoder_decoder else "blocks"
        if stack_name not in seen_kinds:
            seen_kinds.add(stack_name)
            at_first = Trained(
                attention=flags.attention,
                mlp=flags.mlp,
                norms=flags.norms,
                reached=reached,
                adapter=adapter,
                adapted=flags.adapted,
                input_gradient=embeddings_trained or own,
            )
            more = block(rules, model.family, model.hidden, layer, mode, fused, at_first, True)
            firsts.append((indices[0], more + kept.scaled(-1.0), model.encoder_decoder and layer.kind == "decoder"))
        kinds.append(_kind(layer, tuple(indices), kept, method, own, sum(a.parameters for a in adapted), model, quantized))
    return tuple(kinds), tuple(firsts)


def _kind(
    layer: Layer,
    indices: tuple[int, ...],
    kept: Kept,
    method: TrainedParts,
    own: bool,
    adapters: float,
    model: Architecture,
    quantized: bool,
) -> Kind:
    split = experts = trained_split = trained_experts = matrices = outputs = 0.0
    whole = float(sum(v.size for v in layer.vectors))
    trained_whole = 0.0
    largest = 0
    for v in layer.vectors:
        trained_whole += v.size if own and method.part(v.part) else 0.0
    for m in layer.matrices:
        trains = own and method.part(m.part)
        matrices += m.weights
        largest = max(largest, m.inputs * m.outputs)
        if m.part == "experts":
            experts += m.parameters
            trained_experts += m.parameters if trains else 0.0
        elif m.part == "router":
            whole += m.parameters
            trained_whole += m.parameters if trains else 0.0
        else:
            split += m.parameters
            trained_split += m.parameters if trains else 0.0
            outputs += m.outputs if m.reads not in ("attended", "activated") else 0.0
    mlp = layer.mlp
    width = mlp.intermediate * (mlp.experts_per_token if mlp.experts else 1) + mlp.shared_intermediate
    return Kind(
        layer=layer,
        indices=indices,
        kept=kept,
        split=split,
        whole=whole,
        experts=experts,
        quantized=split + experts if quantized else 0.0,
        matrices=matrices,
        adapters=float(adapters),
        trained_split=trained_split,
        trained_whole=trained_whole,
        trained_experts=trained_experts,
        outputs=outputs,
        intermediate=float(width),
        largest=float(largest),
        decoder=model.encoder_decoder and layer.kind == "decoder",
    )
