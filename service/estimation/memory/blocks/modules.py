"""What every module of a block keeps from its forward to its backward pass: what autograd saves.

Beside the package's symbols: q = query heads x head size, kv likewise for keys. The rules themselves (which module copies what)
are the stack's table; this file knows only which tensors a decoder block has. For Hugging Face the sums reproduce the counts of
PyTorch's own saved-tensor hooks (tests/cases/oracle.jsonl, ``saved``), e.g. 16h + 8 + 4q + 4kv + 4 heads + 8f for Llama in bf16.
"""

from __future__ import annotations

from collections.abc import Collection

from ...architecture import Attention, Layer, Matrix
from ...stacks.profile import AUTOCAST, HALF
from .coefficients import MASK, Computing, GradientFlow, Kept


def block(how: Computing, layer: Layer, flow: GradientFlow, first: bool = False) -> Kept:
    """What a block keeps; ``first``: it is the first of its stack and holds what its successors share."""
    if not flow.reached:
        return Kept()
    kept = _norms(how, layer, flow) + _attention(how, layer, flow)
    kept += feed_forward(how, layer, flow)
    kept += _adapters(how, layer, flow)
    kept += _masks(how, layer)
    if first:
        kept += _first(how, layer, flow)
    return kept


def _masks(how: Computing, layer: Layer) -> Kept:
    """Masks of dropout, and the dropped copy where the value itself stays too. Fused attention keeps a random state alone."""
    drop = layer.dropout
    if drop is None:
        return Kept()
    split = scores = cross_scores = 0.0
    if drop.inner:
        rule = how.activation(layer.mlp.activation)
        stays = rule.keeps_output and not layer.mlp.gated
        split = (MASK + (how.width if stays else 0.0)) * layer.mlp.intermediate
    if drop.scores and not how.fused and not how.rules.attention.scores_dropped:
        kept = how.score_widths(layer.attention)
        per = MASK + (how.width if kept[how.mode] == how.width else 0.0)  # a softmax that is cast first keeps the dropped cast alone
        scores = per * layer.attention.query_heads
        cross_scores = per * layer.cross_attention.query_heads if layer.cross_attention is not None else 0.0
    return Kept(replicated=MASK * drop.hidden * how.hidden, split=split, scores=scores, cross_scores=cross_scores)


def feed_forward(how: Computing, layer: Layer, flow: GradientFlow) -> Kept:
    """What the MLP or the experts of a block keep, norms and adapters left out."""
    if layer.mlp.experts:
        return _mixture(how, layer, flow)
    return _mlp(how, layer, flow)


def _first(how: Computing, layer: Layer, flow: GradientFlow) -> Kept:
    """What the first block of a stack holds for all: cosines and sines, or the relative position bias and its buckets."""
    a = layer.attention
    if a.rotary:
        return Kept(positions=2.0 * (a.rope_dim or a.query_key_dim) * how.residual)
    if a.position_bias is None:
        return Kept()
    squares = 8.0 if flow.attention else 0.0  # the look-up of the bias keeps its 64-bit indices
    bias = how.residual * a.query_heads
    if a.position_bias == "own":  # every block does (``_attention``); the first reads the encoder's output for all
        encoded = how.width * how.hidden if layer.cross_attention is not None and flow.attention and how.mode != AUTOCAST else 0.0
        return Kept(cross_replicated=encoded)
    if layer.cross_attention is None:
        return Kept(squares=squares, shared_squares=bias)
    zeros = how.width * a.query_heads if how.fused else 0.0  # the mask of cross-attention
    encoded = how.width * how.hidden if flow.attention and how.mode != AUTOCAST else 0.0
    return Kept(squares=squares, cross_squares=zeros, cross_replicated=encoded, shared_squares=bias + how.width * a.query_heads)


def _inputs_shared(how: Computing, matrices: Collection[Matrix], flow: GradientFlow) -> bool:
    """Whether an adapter reads the very tensor that the frozen matrix reads, and so keeps it."""
    adapter = how.adapter
    return adapter is not None and adapter.own_input_bytes(how.width) == 0.0 and any(m.name in flow.adapted for m in matrices)


def _reading(layer: Layer, *values: str) -> list[Matrix]:
    """Matrices that multiply one of the named values."""
    return [m for m in layer.matrices if m.reads in values]


def _query_readers(layer: Layer) -> list[Matrix]:
    """Matrices of self-attention that read the normalised hidden state."""
    return [m for m in layer.matrices if m.part == "attention" and m.reads == "block"]


def _mlp_readers(layer: Layer) -> list[Matrix]:
    """Matrices of the MLP (or experts and router) that read the normalised hidden state."""
    return [m for m in layer.matrices if m.part != "attention" and m.reads in ("block", "middle")]


def _norms(how: Computing, layer: Layer, flow: GradientFlow) -> Kept:
    """What the normalisations keep, and what their readers do of what they hand on."""
    rule, compute = how.norm(layer), how.width
    readers: list[tuple[list[Matrix], bool]] = [(_query_readers(layer), flow.attention)]
    if layer.cross_attention is not None:
        readers.append((_reading(layer, "cross"), flow.attention))
    if layer.norms > 1:
        readers.append((_mlp_readers(layer), flow.mlp))
    behind = max(0, layer.norms - len(readers))  # norms behind a matrix product, whose output only feeds the residual
    per_element = 0.0
    copy = how.norm_input(rule)
    # Parallel branches normalise one and the same input; where autocast casts it, each has a copy of its own.
    inputs = 1 if layer.parallel_residual and copy <= rule.input_copy[how.mode] else len(readers)
    per_element += inputs * copy + behind * (rule.half_input_copy if how.mode == AUTOCAST else rule.input_copy[how.mode])
    scale_copies = 0.0
    if flow.norms:
        per_element += len(readers) * rule.normalized[how.mode]
        per_element += behind * (rule.half_normalized if how.mode == AUTOCAST else rule.normalized[how.mode])
        scale_copies = rule.trained_scale_copy * how.hidden * (len(readers) + behind)
    for matrices, weights_trained in readers:
        if weights_trained:
            per_element += compute * (max(1, len(matrices)) if how.mode == AUTOCAST else 1)
        elif (how.own_copy(rule) == 0.0 and _inputs_shared(how, matrices, flow)) or any(
            m.lora_materialized and m.name in flow.adapted for m in matrices
        ):
            per_element += compute
    replicated = per_element * how.hidden + rule.statistics * (len(readers) + behind)
    if not flow.into_input and not flow.norms:  # nothing asks the first norm for its input's gradient
        first = (
            (inputs * copy * how.hidden + rule.statistics * len(readers))
            if layer.parallel_residual
            else copy * how.hidden + rule.statistics
        )
        replicated -= first
    return Kept(replicated=replicated, fixed=scale_copies)


def _attention(how: Computing, layer: Layer, flow: GradientFlow) -> Kept:
    """What attention keeps of queries, keys, values, scores and output."""
    a, width = layer.attention, how.width
    rule = how.rules.attention
    output = a.query_heads * a.value_dim
    queries = a.query_heads * a.query_key_dim
    repeated = rule.repeats_key_values[how.mode] if how.fused else True
    heads = a.query_heads if repeated else a.key_value_heads
    keys, values = heads * a.query_key_dim, heads * a.value_dim
    single = 0.0
    fused_matrix = not a.latent and len(_query_readers(layer)) == 1
    storage = queries + a.key_value_heads * (a.query_key_dim + a.value_dim)  # a fused projection's whole output
    if fused_matrix and not a.rotary:
        kept = float(storage)  # three views of one tensor
    elif fused_matrix:  # rotation makes new queries and keys; values stay a view that keeps the whole projection
        kept = float(queries + keys + (storage if how.fused else values))
        single = 0.0 if how.fused else float(storage - values)
    elif a.latent:
        plain = a.query_key_dim - (a.rope_dim or 0)
        whole = a.query_heads * (plain + a.value_dim)  # values are a view of the decompressed keys and values
        kept = float(queries + keys + (whole if how.fused else values))
        single = 0.0 if how.fused else float(whole - values)
    else:
        kept = float(queries + keys + values)
    split = width * kept
    if a.query_key_norm:
        norm = how.norm(layer)
        own = HALF if how.mode == AUTOCAST else how.mode
        per = norm.half_input_copy + (norm.half_normalized if flow.norms else 0.0)
        per = per if own == HALF else norm.input_copy[own] + (norm.normalized[own] if flow.norms else 0.0)
        heads = _normalised_heads(layer, flow)
        split += per * heads * a.query_key_dim + norm.statistics * heads
    replicated = 0.0
    if a.latent:
        norm = how.norm(layer)
        ranks = (a.query_lora_rank or 0) + (a.key_value_lora_rank or 0)
        count = (1 if a.query_lora_rank else 0) + 1
        own = HALF if how.mode == AUTOCAST else how.mode
        inner = norm.input_copy[own] + (norm.normalized[own] if flow.norms else 0.0)
        down = _reading(layer, "query_latent", "key_value_latent")
        inner += width if flow.attention or _inputs_shared(how, down, flow) else 0.0
        replicated += inner * ranks + norm.statistics * count
    read_later = flow.attention or _inputs_shared(how, _reading(layer, "attended", "cross_attended"), flow)
    out_kept = how.fused or read_later
    split += width * output if out_kept else 0.0
    scores = squares = 0.0
    if how.fused:
        split += 4.0 * a.query_heads  # log-sum-exp of each row, 32-bit
        if rule.second_output[how.mode] and a.rope_dim and not a.latent and read_later:
            split += width * output
        squares = width * a.query_heads if a.position_bias is not None else 0.0
    else:
        scores = how.score_bytes(a) * a.query_heads
    if a.position_bias == "own" and flow.attention:
        squares += 8.0  # the look-up's indices
    total = Kept(replicated=replicated, split=split, scores=scores, squares=squares, single=width * single)
    if layer.cross_attention is not None:
        total += _cross(how, layer.cross_attention, layer, flow)
    return total


def _normalised_heads(layer: Layer, flow: GradientFlow) -> int:
    """Heads whose norms have a gradient to hand on: under a frozen input those of adapted projections alone."""
    a = layer.attention
    if flow.into_input or flow.attention or flow.norms:
        return a.query_heads + a.key_value_heads
    roles = {role for m in _query_readers(layer) if m.name in flow.adapted for role in m.roles}
    return (a.query_heads if "q_proj" in roles else 0) + (a.key_value_heads if "k_proj" in roles else 0)


def _cross(how: Computing, a: Attention, layer: Layer, flow: GradientFlow) -> Kept:
    """The same of cross-attention: queries of its own tokens, keys and values of the encoder's."""
    width = how.width
    queries = a.query_heads * a.query_key_dim
    keys = (a.query_heads if how.rules.attention.repeats_key_values[how.mode] or not how.fused else a.key_value_heads) * a.query_key_dim
    kept = width * (queries + (queries if how.fused or flow.attention else 0))
    read = width * 2.0 * keys  # keys and values
    replicated = 2.0 * width * queries if how.mode == AUTOCAST and flow.attention else 0.0  # two casts of the encoder's output
    zeros = width * a.query_heads if layer.attention.position_bias == "own" else 0.0  # its mask
    if how.fused:
        mask = zeros + (1.0 if flow.attention else 0.0)
        return Kept(split=kept + 4.0 * a.query_heads, cross=read, cross_replicated=replicated, cross_squares=mask)
    scores = how.score_bytes(a) * a.query_heads
    return Kept(split=kept, cross=read, cross_replicated=replicated, cross_scores=scores)


def _mlp(how: Computing, layer: Layer, flow: GradientFlow) -> Kept:
    """What a dense MLP keeps: what its activation needs, both factors of a gate, and the product if the last matrix wants it."""
    width, mlp = how.width, layer.mlp
    rule = how.activation(mlp.activation)
    down = _reading(layer, "activated", "shared_activated")
    product = flow.mlp or _inputs_shared(how, down, flow) or (rule.keeps_output and not mlp.gated)
    per = rule.inner[how.operators] + (width if product else 0.0)
    if mlp.gated:
        per += width + (width if how.rules.gate_output_kept and not rule.keeps_output else 0.0)  # the other factor, and the activated gate
    per += how.rules.product_copy[how.mode] if mlp.product_cast and flow.mlp else 0.0
    return Kept(split=per * mlp.intermediate)


def _mixture(how: Computing, layer: Layer, flow: GradientFlow) -> Kept:
    """Experts behind a grouped product: k sorted copies of the hidden state in and out, and the inside of k experts."""
    width, mlp = how.width, layer.mlp
    adapted = any(m.lora_materialized and m.name in flow.adapted for m in layer.matrices)
    weights = flow.mlp or adapted  # an adapted expert's weights are materialised, so its inputs are kept too
    rule = how.activation(mlp.activation)
    inside = (rule.inner[how.operators] + width + (width if how.rules.gate_output_kept else 0.0)) + (width if weights else 0.0)
    copies = (width * 2 if weights else width) * how.hidden
    shared = inside * mlp.shared_intermediate
    copy = how.rules.router_copy[how.mode] if mlp.router_in_single else 0.0
    router = 4.0 * mlp.experts + 38.0 * mlp.experts_per_token + 4.0 + copy * how.hidden * (1.0 if flow.mlp else 0.0)
    materialised = 0.0
    if adapted and not flow.mlp:  # W + BA in the products' width, the router's in its own
        for m in layer.matrices:
            if m.lora_materialized and m.name in flow.adapted:
                materialised += m.weights * (max(width, copy) if m.part == "router" else width)
    return Kept(
        replicated=router,
        routed=mlp.experts_per_token * copies,
        routed_inner=mlp.experts_per_token * inside * mlp.intermediate,
        split=shared,
        fixed_experts=materialised,
    )


def _adapters(how: Computing, layer: Layer, flow: GradientFlow) -> Kept:
    """What low-rank adapters keep: inputs of their own, and the values between their two matrices."""
    adapter = how.adapter
    if adapter is None:
        return Kept()
    own, replicated, split = adapter.own_input_bytes(how.width), 0.0, 0.0
    for m in layer.matrices:
        if m.name not in flow.adapted or m.lora_materialized:
            continue  # adapted as bare parameters: their sum with the adapter is materialised (``_mixture``)
        if m.reads in ("attended", "cross_attended", "activated", "shared_activated"):
            split += own * m.inputs * m.active_copies
        else:
            copy = how.own_copy(how.norm(layer)) if m.reads in ("block", "middle") else own
            if adapter.dropout and not flow.into_input and m.reads == "block" and m.part == "attention":
                copy -= MASK  # nothing asks the first dropout for its input's gradient
            replicated += copy * m.inputs * m.active_copies
        replicated += adapter.inner_bytes * adapter.rank * m.active_copies
    return Kept(replicated=replicated, split=split)
