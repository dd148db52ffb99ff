"""Bytes that a block keeps from its forward to its backward pass: what autograd saves, module by module.

Symbols: h hidden size, q = query heads x head size, kv likewise for keys, f intermediate size, r adapter rank; a
width is the bytes of one element. The rules themselves (which module copies what) are the stack's table; this file
knows only which tensors a decoder block has. For Hugging Face the sums reproduce the counts of PyTorch's own
saved-tensor hooks (tests/cases/oracle.jsonl, ``saved``), e.g. 16h + 8 + 4q + 4kv + 4 heads + 8f for Llama in bf16.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..architecture import Attention, Layer, Matrix
from ..stacks.profile import AUTOCAST, COMPUTE, HALF, RESIDUAL, ActivationRule, BlockRule, Mode, NormRule, Widths


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """How low-rank adapters hold their inputs."""

    rank: int
    element_bytes: float
    dropout: bool
    autocast: bool  # inputs are cast to 16 bits whatever the adapter's own width
    gathered: bool = False  # the engine hands the products 16-bit copies of the adapters, whatever it stores

    def own_input_bytes(self, compute_bytes: float) -> float:
        """Bytes per input element of the copy that one adapted matrix keeps for itself; 0 where it shares the input."""
        mask = 1.0 if self.dropout else 0.0
        if self.gathered:
            return compute_bytes + mask if self.dropout else 0.0
        if self.autocast and self.element_bytes > compute_bytes:
            return compute_bytes + mask
        if self.element_bytes > compute_bytes:
            return self.element_bytes + mask
        return compute_bytes + mask if self.dropout else 0.0

    @property
    def autocasts(self) -> bool:
        """Whether autocast stands over the frozen base, whose norms it then widens, and casts wider adapters."""
        return self.autocast and not self.gathered

    def frame_bytes(self, compute_bytes: float) -> float:
        """Bytes per input element of the cast that the adapted layer makes and its frame holds until it returns."""
        return self.element_bytes if self.element_bytes > compute_bytes and not self.gathered else 0.0

    @property
    def inner_bytes(self) -> float:
        """Bytes per rank of the value between the two low-rank matrices."""
        return 2.0 if self.autocast or self.gathered else self.element_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Which parts of a block are trained, and through which the gradient flows."""

    attention: bool = True
    mlp: bool = True
    norms: bool = True
    reached: bool = True  # some parameter here or below is trained, so this block has a backward pass
    input_gradient: bool = True  # the block's input needs a gradient
    adapter: Adapter | None = None
    adapted: frozenset[str] = frozenset()  # names of the adapted matrices


@dataclass(frozen=True, slots=True)
class Kept:
    """What one block keeps, as coefficients: bytes = tokens x (replicated + split/t + scores x keys/t + routed) + ..."""

    replicated: float = 0.0  # per token; whole on every tensor-parallel rank unless the sequence is split too
    split: float = 0.0  # per token; divided by tensor parallelism (heads, intermediate)
    scores: float = 0.0  # per token and key position; divided by tensor parallelism
    squares: float = 0.0  # per squared position, whatever the batch size (a position bias kept as a mask)
    single: float = 0.0  # per token, only where the micro-batch is one sequence (views keep their base)
    routed: float = 0.0  # per token, in the experts: grows with the load imbalance
    fixed: float = 0.0  # per block
    fixed_experts: float = 0.0  # per block, divided by expert parallelism
    positions: float = 0.0  # per position, whatever the batch size
    shared_squares: float = 0.0  # per squared position, held for all blocks even where they are recomputed
    # Of cross-attention, whose keys and values are as many as the encoder's tokens:
    cross: float = 0.0  # per token of the encoder; divided by tensor parallelism
    cross_replicated: float = 0.0  # per token of the encoder
    cross_scores: float = 0.0  # per token and position of the encoder; divided by tensor parallelism
    cross_squares: float = 0.0  # per position and position of the encoder, whatever the batch size

    def __add__(self, other: Kept) -> Kept:
        return Kept(*(getattr(self, name) + getattr(other, name) for name in Kept.__slots__))

    def scaled(self, factor: float) -> Kept:
        """All coefficients times a factor."""
        return Kept(*(getattr(self, name) * factor for name in Kept.__slots__))


def block(rules: BlockRule, hidden: int, layer: Layer, mode: Mode, fused: bool, trained: Trained, first: bool = False) -> Kept:
    """What a block keeps.

    ``fused`` says that attention scores are never stored (flash or memory-efficient kernels); ``first`` that the block
    is the first of its stack and holds what its successors share.
    """
    if not trained.reached:
        return Kept()
    kept = _norms(rules, hidden, layer, mode, trained) + _attention(rules, hidden, layer, mode, fused, trained)
    kept += feed_forward(rules, hidden, layer, mode, trained)
    kept += _adapters(norm_rule(rules, layer), layer, mode, trained)
    kept += _masks(rules, hidden, layer, mode, fused)
    if first:
        kept += _first(rules, hidden, layer, mode, fused, trained)
    return kept


MASK = 1.0  # byte of a dropped element: torch's native_dropout keeps a boolean


def _masks(rules: BlockRule, hidden: int, layer: Layer, mode: Mode, fused: bool) -> Kept:
    """Masks of dropout, and the dropped copy where the value itself stays too. Fused attention keeps a random state alone."""
    drop = layer.dropout
    if drop is None:
        return Kept()
    split = scores = cross_scores = 0.0
    if drop.inner:
        rule = rules.activations.get(layer.mlp.activation, rules.activations[""])
        stays = rule.keeps_output and not layer.mlp.gated
        split = (MASK + (COMPUTE[mode] if stays else 0.0)) * layer.mlp.intermediate
    if drop.scores and not fused and not rules.attention.scores_dropped:
        kept = score_widths(rules, layer.attention)
        per = MASK + (COMPUTE[mode] if kept[mode] == COMPUTE[mode] else 0.0)  # a softmax that is cast first keeps the dropped cast alone
        scores = per * layer.attention.query_heads
        cross_scores = per * layer.cross_attention.query_heads if layer.cross_attention is not None else 0.0
    return Kept(replicated=MASK * drop.hidden * hidden, split=split, scores=scores, cross_scores=cross_scores)


def feed_forward(rules: BlockRule, hidden: int, layer: Layer, mode: Mode, trained: Trained) -> Kept:
    """What the MLP or the experts of a block keep, norms and adapters left out."""
    if layer.mlp.experts:
        return _mixture(rules, hidden, layer, mode, trained)
    return _mlp(rules, layer, mode, trained)


def _first(rules: BlockRule, hidden: int, layer: Layer, mode: Mode, fused: bool, trained: Trained) -> Kept:
    """What the first block of a stack holds for all: cosines and sines, or the relative position bias and its buckets."""
    a = layer.attention
    if a.rotary:
        return Kept(positions=2.0 * (a.rope_dim or a.query_key_dim) * RESIDUAL[mode])
    if a.position_bias is None:
        return Kept()
    squares = 8.0 if trained.attention else 0.0  # the look-up of the bias keeps its 64-bit indices
    bias = RESIDUAL[mode] * a.query_heads
    if a.position_bias == "own":  # every block does (``_attention``); the first reads the encoder's output for all
        encoded = COMPUTE[mode] * hidden if layer.cross_attention is not None and trained.attention and mode != AUTOCAST else 0.0
        return Kept(cross_replicated=encoded)
    if layer.cross_attention is None:
        return Kept(squares=squares, shared_squares=bias)
    zeros = COMPUTE[mode] * a.query_heads if fused else 0.0  # the mask of cross-attention
    encoded = COMPUTE[mode] * hidden if trained.attention and mode != AUTOCAST else 0.0
    return Kept(squares=squares, cross_squares=zeros, cross_replicated=encoded, shared_squares=bias + COMPUTE[mode] * a.query_heads)


def _inputs_shared(trained: Trained, matrices: Collection[Matrix], mode: Mode) -> bool:
    """Whether an adapter reads the very tensor that the frozen matrix reads, and so keeps it."""
    adapter = trained.adapter
    return adapter is not None and adapter.own_input_bytes(COMPUTE[mode]) == 0.0 and any(m.name in trained.adapted for m in matrices)


def _reading(layer: Layer, *values: str) -> list[Matrix]:
    """Matrices that multiply one of the named values."""
    return [m for m in layer.matrices if m.reads in values]


def _query_readers(layer: Layer) -> list[Matrix]:
    """Matrices of self-attention that read the normalised hidden state."""
    return [m for m in layer.matrices if m.part == "attention" and m.reads == "block"]


def _mlp_readers(layer: Layer) -> list[Matrix]:
    """Matrices of the MLP (or experts and router) that read the normalised hidden state."""
    return [m for m in layer.matrices if m.part != "attention" and m.reads in ("block", "middle")]


def norm_rule(rules: BlockRule, layer: Layer) -> NormRule:
    """The rule of a block's normalisations."""
    return rules.norms[layer.norm]


def operators(mode: Mode, adapter: Adapter | None) -> Mode:
    """Whose widths the operators have that autocast runs in 32 bits (powers, softmax, cross entropy): over 16-bit weights, too."""
    return AUTOCAST if mode == HALF and adapter is not None and adapter.autocasts else mode


def norm_input(rule: NormRule, mode: Mode, adapter: Adapter | None) -> float:
    """Bytes per element that a norm of the residual stream keeps of its input."""
    return rule.half_input_copy if mode == HALF and adapter is not None and adapter.autocasts else rule.input_copy[mode]


def norm_output(rule: NormRule, mode: Mode, adapter: Adapter | None) -> float:
    """Bytes per element of what a norm hands on."""
    return rule.autocast_output if mode == HALF and adapter is not None and adapter.autocasts else COMPUTE[mode]


def _norms(rules: BlockRule, hidden: int, layer: Layer, mode: Mode, trained: Trained) -> Kept:
    rule = norm_rule(rules, layer)
    compute = COMPUTE[mode]
    readers: list[tuple[list[Matrix], bool]] = [(_query_readers(layer), trained.attention)]
    if layer.cross_attention is not None:
        readers.append((_reading(layer, "cross"), trained.attention))
    if layer.norms > 1:
        readers.append((_mlp_readers(layer), trained.mlp))
    behind = max(0, layer.norms - len(readers))  # norms behind a matrix product, whose output only feeds the residual
    per_element = 0.0
    copy = norm_input(rule, mode, trained.adapter)
    # Parallel branches normalise one and the same input; where autocast casts it, each has a copy of its own.
    inputs = 1 if layer.parallel_residual and copy <= rule.input_copy[mode] else len(readers)
    per_element += inputs * copy + behind * (rule.half_input_copy if mode == AUTOCAST else rule.input_copy[mode])
    scale_copies = 0.0
    if trained.norms:
        per_element += len(readers) * rule.normalized[mode]
        per_element += behind * (rule.half_normalized if mode == AUTOCAST else rule.normalized[mode])
        scale_copies = rule.trained_scale_copy * hidden * (len(readers) + behind)
    for matrices, weights_trained in readers:
        if weights_trained:
            per_element += compute * (max(1, len(matrices)) if mode == AUTOCAST else 1)
        elif (own_copies(rule, mode, trained.adapter) == 0.0 and _inputs_shared(trained, matrices, mode)) or any(
            m.lora_materialized and m.name in trained.adapted for m in matrices
        ):
            per_element += compute
    replicated = per_element * hidden + rule.statistics * (len(readers) + behind)
    if not trained.input_gradient and not trained.norms:  # nothing asks the first norm for its input's gradient
        first = (inputs * copy * hidden + rule.statistics * len(readers)) if layer.parallel_residual else copy * hidden + rule.statistics
        replicated -= first
    return Kept(replicated=replicated, fixed=scale_copies)


def score_widths(rules: BlockRule, a: Attention) -> Widths:
    """Bytes that the eager path keeps of one score, softcap left out, in the three ways to train."""
    return rules.attention.score_bytes if a.softmax_in_single else rules.attention.own_width_score_bytes


def score_bytes(rules: BlockRule, a: Attention, mode: Mode) -> float:
    """Bytes that the eager path keeps of one attention score."""
    softcap = rules.attention.softcap_bytes[mode] if a.softcap else 0.0
    return score_widths(rules, a)[mode] + softcap


def _attention(rules: BlockRule, hidden: int, layer: Layer, mode: Mode, fused: bool, trained: Trained) -> Kept:
    a, width = layer.attention, COMPUTE[mode]
    rule = rules.attention
    output = a.query_heads * a.value_dim
    queries = a.query_heads * a.query_key_dim
    repeated = rule.repeats_key_values[mode] if fused else True
    heads = a.query_heads if repeated else a.key_value_heads
    keys, values = heads * a.query_key_dim, heads * a.value_dim
    single = 0.0
    fused_matrix = not a.latent and len(_query_readers(layer)) == 1
    storage = queries + a.key_value_heads * (a.query_key_dim + a.value_dim)  # a fused projection's whole output
    if fused_matrix and not a.rotary:
        kept = float(storage)  # three views of one tensor
    elif fused_matrix:  # rotation makes new queries and keys; values stay a view that keeps the whole projection
        kept = float(queries + keys + (storage if fused else values))
        single = 0.0 if fused else float(storage - values)
    elif a.latent:
        plain = a.query_key_dim - (a.rope_dim or 0)
        whole = a.query_heads * (plain + a.value_dim)  # values are a view of the decompressed keys and values
        kept = float(queries + keys + (whole if fused else values))
        single = 0.0 if fused else float(whole - values)
    else:
        kept = float(queries + keys + values)
    split = width * kept
    if a.query_key_norm:
        norm = norm_rule(rules, layer)
        own = HALF if mode == AUTOCAST else mode
        per = norm.half_input_copy + (norm.half_normalized if trained.norms else 0.0)
        per = per if own == HALF else norm.input_copy[own] + (norm.normalized[own] if trained.norms else 0.0)
        heads = _normalised_heads(layer, trained)
        split += per * heads * a.query_key_dim + norm.statistics * heads
    replicated = 0.0
    if a.latent:
        norm = norm_rule(rules, layer)
        ranks = (a.query_lora_rank or 0) + (a.key_value_lora_rank or 0)
        count = (1 if a.query_lora_rank else 0) + 1
        own = HALF if mode == AUTOCAST else mode
        inner = norm.input_copy[own] + (norm.normalized[own] if trained.norms else 0.0)
        down = _reading(layer, "query_latent", "key_value_latent")
        inner += width if trained.attention or _inputs_shared(trained, down, mode) else 0.0
        replicated += inner * ranks + norm.statistics * count
    read_later = trained.attention or _inputs_shared(trained, _reading(layer, "attended", "cross_attended"), mode)
    out_kept = fused or read_later
    split += width * output if out_kept else 0.0
    scores = squares = 0.0
    if fused:
        split += 4.0 * a.query_heads  # log-sum-exp of each row, 32-bit
        if rule.second_output[mode] and a.rope_dim and not a.latent and read_later:
            split += width * output
        squares = width * a.query_heads if a.position_bias is not None else 0.0
    else:
        scores = score_bytes(rules, a, operators(mode, trained.adapter)) * a.query_heads
    if a.position_bias == "own" and trained.attention:
        squares += 8.0  # the look-up's indices
    total = Kept(replicated=replicated, split=split, scores=scores, squares=squares, single=width * single)
    if layer.cross_attention is not None:
        total += _cross(rules, layer.cross_attention, mode, fused, trained, layer)
    return total


def _normalised_heads(layer: Layer, trained: Trained) -> int:
    """Heads whose norms have a gradient to hand on: under a frozen input those of adapted projections alone."""
    a = layer.attention
    if trained.input_gradient or trained.attention or trained.norms:
        return a.query_heads + a.key_value_heads
    roles = {role for m in _query_readers(layer) if m.name in trained.adapted for role in m.roles}
    return (a.query_heads if "q_proj" in roles else 0) + (a.key_value_heads if "k_proj" in roles else 0)


def _cross(rules: BlockRule, a: Attention, mode: Mode, fused: bool, trained: Trained, layer: Layer) -> Kept:
    width = COMPUTE[mode]
    queries = a.query_heads * a.query_key_dim
    keys = (a.query_heads if rules.attention.repeats_key_values[mode] or not fused else a.key_value_heads) * a.query_key_dim
    kept = width * (queries + (queries if fused or trained.attention else 0))
    read = width * 2.0 * keys  # keys and values
    replicated = 2.0 * width * queries if mode == AUTOCAST and trained.attention else 0.0  # two casts of the encoder's output
    zeros = width * a.query_heads if layer.attention.position_bias == "own" else 0.0  # its mask
    if fused:
        mask = zeros + (1.0 if trained.attention else 0.0)
        return Kept(split=kept + 4.0 * a.query_heads, cross=read, cross_replicated=replicated, cross_squares=mask)
    scores = score_bytes(rules, a, operators(mode, trained.adapter)) * a.query_heads
    return Kept(split=kept, cross=read, cross_replicated=replicated, cross_scores=scores)


def activation_rule(rules: BlockRule, name: str) -> ActivationRule:
    """The rule of an activation function."""
    return rules.activations.get(name, rules.activations[""])


def _mlp(rules: BlockRule, layer: Layer, mode: Mode, trained: Trained) -> Kept:
    width, mlp = COMPUTE[mode], layer.mlp
    rule = activation_rule(rules, mlp.activation)
    down = _reading(layer, "activated", "shared_activated")
    product = trained.mlp or _inputs_shared(trained, down, mode) or (rule.keeps_output and not mlp.gated)
    per = rule.inner[operators(mode, trained.adapter)] + (width if product else 0.0)
    if mlp.gated:
        per += width + (width if rules.gate_output_kept and not rule.keeps_output else 0.0)  # the other factor, and the activated gate
    per += rules.product_copy[mode] if mlp.product_cast and trained.mlp else 0.0
    return Kept(split=per * mlp.intermediate)


def _mixture(rules: BlockRule, hidden: int, layer: Layer, mode: Mode, trained: Trained) -> Kept:
    """Experts behind a grouped product: k sorted copies of the hidden state in and out, and the inside of k experts."""
    width, mlp = COMPUTE[mode], layer.mlp
    adapted = any(m.lora_materialized and m.name in trained.adapted for m in layer.matrices)
    weights = trained.mlp or adapted  # an adapted expert's weights are materialised, so its inputs are kept too
    rule = activation_rule(rules, mlp.activation)
    inside = (rule.inner[operators(mode, trained.adapter)] + width + (width if rules.gate_output_kept else 0.0)) + (
        width if weights else 0.0
    )
    copies = (width * 2 if weights else width) * hidden
    routed = mlp.experts_per_token * (copies + inside * mlp.intermediate)
    shared = inside * mlp.shared_intermediate
    copy = rules.router_copy[mode] if mlp.router_in_single else 0.0
    router = 4.0 * mlp.experts + 38.0 * mlp.experts_per_token + 4.0 + copy * hidden * (1.0 if trained.mlp else 0.0)
    materialised = 0.0
    if adapted and not trained.mlp:  # W + BA in the products' width, the router's in its own
        for m in layer.matrices:
            if m.lora_materialized and m.name in trained.adapted:
                materialised += m.weights * (max(width, copy) if m.part == "router" else width)
    return Kept(replicated=router, routed=routed, split=shared, fixed_experts=materialised)


def own_copies(rule: NormRule, mode: Mode, adapter: Adapter | None) -> float:
    """Bytes per input element that an adapted reader of a norm keeps for itself: a 32-bit output is cast for each, whatever its width."""
    if adapter is None:
        return 0.0
    own = adapter.own_input_bytes(COMPUTE[mode])
    return own or (COMPUTE[mode] if norm_output(rule, mode, adapter) > COMPUTE[mode] else 0.0)


def _adapters(rule: NormRule, layer: Layer, mode: Mode, trained: Trained) -> Kept:
    adapter = trained.adapter
    if adapter is None:
        return Kept()
    own, replicated, split = adapter.own_input_bytes(COMPUTE[mode]), 0.0, 0.0
    for m in layer.matrices:
        if m.name not in trained.adapted or m.lora_materialized:
            continue  # adapted as bare parameters: their sum with the adapter is materialised (``_mixture``)
        if m.reads in ("attended", "cross_attended", "activated", "shared_activated"):
            split += own * m.inputs * m.active_copies
        else:
            copy = own_copies(rule, mode, adapter) if m.reads in ("block", "middle") else own
            if adapter.dropout and not trained.input_gradient and m.reads == "block" and m.part == "attention":
                copy -= MASK  # nothing asks the first dropout for its input's gradient
            replicated += copy * m.inputs * m.active_copies
        replicated += adapter.inner_bytes * adapter.rank * m.active_copies
    return Kept(replicated=replicated, split=split)
