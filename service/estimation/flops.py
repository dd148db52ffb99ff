"""FLOPs of every part of a model, as coefficients: per token, per pair of positions, per sequence and per forward pass.

The rules reproduce what PyTorch's autograd executes (2 FLOPs a multiply-add; element-wise work is not counted):

- a matrix: forward 2 x inputs x outputs a token; the gradient of its input the same where that input needs one, the
  gradient of its weight the same where the weight trains;
- attention: forward 2 x heads x (query_key + value) a pair; backward twice that with materialised scores (each of the four
  products only where its operand needs it), 2 x heads x (3 query_key + 2 value) in a fused kernel, which recomputes the
  scores [Dao 2023, FlashAttention-2, section 3];
- an adapter: forward 2 r (in + out), backward 4 r (in + out) less the gradient of an input that needs none [Hu 2021];
  expert weights that PEFT adapts are formed anew, W + BA for all copies, on every forward pass;
- checkpointing repeats a layer's forward; the non-reentrant kind stops where the last saved value is restored, which
  leaves out a closing matrix whose output nobody saves (torch.utils.checkpoint, early stop).

Gradients flow from the first trained weight on: what lies before it gets none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .architecture import Architecture, Attention, Layer, Matrix
from .by_identity import ByIdentity
from .numeric import Number
from .parameters import Adapted, Trained, adapters_of, adapters_outside, trained
from .run import Lora, Method

# A pair of positions is counted by (window, causal): what the kernel executes counts every pair, the model's own FLOPs
# only those that the mask lets through.
Pairs = tuple[str, int | None, bool]  # (stream, window, causal)
ENCODER, DECODER, CROSS = "encoder", "decoder", "cross"


@dataclass(slots=True)
class Terms:
    """A sum of FLOPs as coefficients; ``at`` a volume it becomes a number. Exact integers throughout."""

    tokens: dict[str, float] = field(default_factory=dict)  # by stream
    pairs: dict[Pairs, float] = field(default_factory=dict)
    sequences: float = 0
    passes: float = 0  # once a forward pass of a micro-batch

    def token(self, stream: str, flops: float) -> None:
        """Add FLOPs a token of that stream."""
        self.tokens[stream] = self.tokens.get(stream, 0) + flops

    def pair(self, key: Pairs, flops: float) -> None:
        """Add FLOPs a pair of positions."""
        self.pairs[key] = self.pairs.get(key, 0) + flops

    def add(self, other: Terms, times: int = 1) -> None:
        """Add another sum ``times`` over."""
        for stream, flops in other.tokens.items():
            self.token(stream, flops * times)
        for key, flops in other.pairs.items():
            self.pair(key, flops * times)
        self.sequences += other.sequences * times
        self.passes += other.passes * times

    def linear_at(self, tokens: dict[str, Number], sequences: Number, passes: Number) -> Number:
        """FLOPs of the matrices at that many tokens by stream, sequences and passes."""
        total: Number = 0
        if self.sequences:
            total = total + self.sequences * sequences
        if self.passes:
            total = total + self.passes * passes
        for stream, flops in self.tokens.items():
            total = total + flops * tokens[stream]
        return total


@dataclass(slots=True)
class Flops:
    """Forward, backward and recomputation of one block or of a whole model."""

    forward: Terms = field(default_factory=Terms)
    backward: Terms = field(default_factory=Terms)
    recompute: Terms = field(default_factory=Terms)  # full checkpointing, non-reentrant
    recompute_reentrant: Terms = field(default_factory=Terms)
    recompute_attention: Terms = field(default_factory=Terms)  # selective: the attention core alone

    def add(self, other: Flops, times: int = 1) -> None:
        """Add another sum ``times`` over."""
        self.forward.add(other.forward, times)
        self.backward.add(other.backward, times)
        self.recompute.add(other.recompute, times)
        self.recompute_reentrant.add(other.recompute_reentrant, times)
        self.recompute_attention.add(other.recompute_attention, times)


@dataclass(frozen=True, slots=True)
class Convention:
    """How attention's backward and expert adapters are counted."""

    fused_attention: bool  # the kernel recomputes the scores
    as_executed: bool  # experts and their adapters as transformers and PEFT execute them; else as a model would need them


MODEL = Convention(fused_attention=False, as_executed=False)


def attention_per_pair(attention: Attention) -> int:
    """Forward FLOPs of one query meeting one key, all heads."""
    return 2 * attention.query_heads * (attention.query_key_dim + attention.value_dim)


def _whole(value: float) -> float:
    """An integral float as the integer that it is, so that sums stay exact."""
    return int(value) if value == int(value) else value


def _per_token(matrix: Matrix) -> float:
    return 2 * matrix.inputs * matrix.outputs * _whole(matrix.active_copies)


def _executed(matrix: Matrix, convention: Convention) -> float:
    """Forward FLOPs a token of a matrix under a convention."""
    if convention.as_executed and matrix.executed_copies is not None:
        return 2 * matrix.inputs * matrix.outputs * _whole(matrix.executed_copies)
    return _per_token(matrix)


class _Block:
    """One block walked once: which values need a gradient, and what that costs.

    A flag that has the name of a value (``incoming``, ``query``, ``hidden``, ``out``) says whether that value needs a gradient.
    """

    def __init__(
        self,
        layer: Layer,
        incoming: bool,
        frozen: bool,
        parts: Trained,
        lora: Lora | None,
        convention: Convention,
        stream: str,
        encoder: bool,
    ) -> None:
        self.layer = layer
        self._encoder_needs = encoder
        self.stream = stream
        self.flops = Flops()
        self._parts = parts
        self._frozen = frozen
        self._convention = convention
        self._adapters: dict[str, Adapted] = {entry.matrix.name: entry for entry in adapters_of(lora, layer)}
        self._norms_train = not frozen and parts.part("norms") and any(vector.part == "norms" for vector in layer.vectors)
        self.out = self._walk(incoming)

    def _trains(self, matrix: Matrix) -> bool:
        return not self._frozen and not self._parts.adapters and self._parts.part(matrix.part)

    def _multiply(self, matrices: list[Matrix], needs: bool, stream: str) -> bool:
        """Run matrices that read one value; whether any output needs a gradient."""
        any_out = False
        for matrix in matrices:
            any_out |= self._one(matrix, needs, stream)
        return any_out

    def _one(self, matrix: Matrix, needs: bool, stream: str) -> bool:
        forward, backward = self.flops.forward, self.flops.backward
        cost = _executed(matrix, self._convention)
        forward.token(stream, cost)
        adapter = self._adapters.get(matrix.name)
        trains = self._trains(matrix)
        out = needs or trains or adapter is not None
        if needs:
            backward.token(stream, cost)
        if trains:
            backward.token(stream, cost)
        if adapter is not None:
            self._adapter(adapter, needs, stream)
        return out

    def _adapter(self, adapter: Adapted, needs: bool, stream: str) -> None:
        matrix, rank = adapter.matrix, adapter.rank
        if matrix.lora_materialized and self._convention.as_executed:
            form = 2 * matrix.copies * rank * matrix.inputs * matrix.outputs
            # torch.nn.utils.parametrize evaluates a parametrization once more when it is registered; a router's product is
            # formed before.
            self.flops.forward.passes += form * (2 if matrix.copies > 1 else 1)
            self.flops.backward.token(stream, _executed(matrix, self._convention))  # the gradient of W + BA ...
            self.flops.backward.passes += 2 * form  # ... and of both factors
            return
        active = _whole(matrix.active_copies)
        down, up = 2 * rank * matrix.inputs * active, 2 * rank * matrix.outputs * active
        self.flops.forward.token(stream, down + up)
        self.flops.backward.token(stream, down + 2 * up + (down if needs else 0))

    def _attend(self, attention: Attention, query: bool, key: bool, value: bool, key_stream: str) -> bool:
        """Scores and the weighted sum of values."""
        kind: Pairs = (key_stream, attention.window, attention.causal and not attention.cross)
        self.flops.forward.pair(kind, attention_per_pair(attention))
        self.flops.recompute_attention.pair(kind, attention_per_pair(attention))
        scores = query or key or (attention.sinks and not self._frozen and self._parts.part("attention"))
        out = scores or value
        if not out:
            return False
        qk, v, heads = 2 * attention.query_key_dim, 2 * attention.value_dim, attention.query_heads
        if self._convention.fused_attention:
            self.flops.backward.pair(kind, heads * (3 * qk + 2 * v))
        else:
            self.flops.backward.pair(kind, heads * (qk * (query + key) + v * (scores + value)))
        return out

    def _walk(self, incoming: bool) -> bool:
        layer, norms = self.layer, self._norms_train
        by_reads: dict[str, list[Matrix]] = {}
        for matrix in layer.matrices:
            by_reads.setdefault(matrix.reads, []).append(matrix)
        block = incoming or (layer.pre_norm and norms)
        first = by_reads.get("block", [])
        needs = {matrix.name: self._one(matrix, block, self.stream) for matrix in first}
        roles: dict[str, bool] = {}
        for matrix in first:
            for role in matrix.roles:
                roles[role] = roles.get(role, False) or needs[matrix.name]
        for reads, role in (("query_latent", "q_proj"), ("key_value_latent", "k_proj")):
            for matrix in by_reads.get(reads, []):
                out = self._one(matrix, roles.get(role, block) or norms, self.stream)
                for each in matrix.roles:
                    roles[each] = out
        query, key, value = (roles.get(role, block) for role in ("q_proj", "k_proj", "v_proj"))
        if layer.attention.query_key_norm and norms:
            query = key = True
        attended = self._attend(layer.attention, query, key, value, self.stream)
        attention_out = self._multiply(by_reads.get("attended", []), attended, self.stream)
        hidden = incoming or attention_out or (norms and not layer.pre_norm)
        if layer.cross_attention is not None:
            hidden = self._cross(layer.cross_attention, by_reads, hidden)
        middle = hidden or norms
        inner = self._multiply(by_reads.get("middle", []), middle, self.stream)
        if layer.parallel_residual:
            inner = any(needs[matrix.name] for matrix in first if matrix.part not in ("attention", "norms"))
        last = self._multiply([*by_reads.get("activated", []), *by_reads.get("shared_activated", [])], inner, self.stream)
        out = hidden or last or norms
        if out:
            self._recompute()
        return out

    def _cross(self, attention: Attention, by_reads: dict[str, list[Matrix]], hidden: bool) -> bool:
        """Cross-attention: queries of this stream, keys and values of the encoder's output."""
        reads = hidden or self._norms_train
        query = self._multiply(by_reads.get("cross", []), reads, self.stream)
        outs = [self._one(matrix, self._encoder_needs, ENCODER) for matrix in by_reads.get("encoder", [])]
        key, value = (outs[0], outs[-1]) if outs else (False, False)
        attended = self._attend(attention, query, key, value, CROSS)
        return self._multiply(by_reads.get("cross_attended", []), attended, self.stream) or hidden

    def _recompute(self) -> None:
        """The forward once more, less what follows the last saved value."""
        self.flops.recompute_reentrant.add(self.flops.forward)
        self.flops.recompute.add(self.flops.forward)
        closing = self.layer.closing
        for matrix in self.layer.matrices:
            if matrix.name != closing:
                continue
            adapter = self._adapters.get(closing)
            skipped = 2 * adapter.rank * matrix.outputs if adapter is not None else _executed(matrix, self._convention)
            self.flops.recompute.token(self.stream, -skipped)


@ByIdentity
def model_flops(architecture: Architecture, method: Method, convention: Convention, input_grads: bool) -> Flops:
    """All FLOPs of a model under a method; ``input_grads`` makes the embeddings' output need a gradient.

    ``entry``, ``hidden`` and ``encoder``: whether what enters a stack, the hidden state, or the encoder's output needs one.
    """
    parts = trained(architecture, method)
    lora = method.lora
    total = Flops()
    start = input_grads or _input_needs(architecture, parts)
    entry = start or _projection_trains(architecture, parts, lora)
    hidden = entry
    encoder = False
    cache: dict[tuple[Any, ...], tuple[Flops, bool]] = {}
    for index, layer in enumerate(architecture.layers):
        decoder = architecture.encoder_decoder and layer.kind == "decoder"
        if decoder and (index == 0 or architecture.layers[index - 1].kind != "decoder"):
            encoder = hidden or parts.part("norms")
            hidden = entry
        key = (id(layer), hidden, index in parts.frozen_layers)
        if key not in cache:
            block = _Block(layer, hidden, index in parts.frozen_layers, parts, lora, convention, DECODER if decoder else ENCODER, encoder)
            cache[key] = (block.flops, block.out)
        flops, hidden = cache[key]
        total.add(flops)
    _outside(total, architecture, parts, lora, start, hidden)
    return total


def _input_needs(architecture: Architecture, parts: Trained) -> bool:
    """Whether what enters the first block needs a gradient."""
    if parts.adapters:
        return False
    tables = bool(architecture.embeddings) or any(matrix.reads == "pixels" for matrix in architecture.outside)
    if tables and parts.embeddings:
        return True
    return parts.part("norms") and any("embed" in vector.name and vector.part == "norms" for vector in architecture.outside_vectors)


def _projection_trains(architecture: Architecture, parts: Trained, lora: Lora | None) -> bool:
    """Whether a projection between the embeddings and the first block trains or carries an adapter."""
    projections = [matrix for matrix in architecture.outside if matrix.reads == "block"]
    adapted = set() if lora is None or not projections else {entry.matrix.name for entry in adapters_outside(architecture, lora)}
    return any(parts.part(matrix.part) or matrix.name in adapted for matrix in projections)


def _outside(total: Flops, architecture: Architecture, parts: Trained, lora: Lora | None, start: bool, hidden: bool) -> None:
    """Patch projections, poolers and the head."""
    stream = DECODER if architecture.encoder_decoder else ENCODER
    adapters = {} if lora is None else {entry.matrix.name: entry for entry in adapters_outside(architecture, lora)}
    final = hidden or parts.part("norms")
    patches = _patches(architecture)
    for matrix in architecture.outside:
        needs = {"pixels": False, "final": final}.get(matrix.reads, start)
        scale = patches if matrix.reads == "pixels" else None
        final |= _outside_matrix(total, matrix, needs, parts.part(matrix.part), adapters.get(matrix.name), stream, scale) and scale is None
    head = architecture.head
    if head is not None:
        trains = parts.head(architecture.head_tied)
        scale = None if head.per_token else 1
        _outside_matrix(total, head, final, trains, adapters.get(head.name), stream, scale)


def _patches(architecture: Architecture) -> int:
    """Patches of an image: its positions without the class tokens."""
    if architecture.image_positions is None:
        return 1
    tokens = sum(vector.size for vector in architecture.outside_vectors if vector.name == "cls_token")
    return architecture.image_positions - tokens // max(1, architecture.hidden)


def _outside_matrix(
    total: Flops, matrix: Matrix, needs: bool, trains: bool, adapter: Adapted | None, stream: str, per_sequence: int | None
) -> bool:
    """One matrix outside the blocks, per token or ``per_sequence`` times a sequence."""
    cost = _per_token(matrix)
    forward, backward = cost, cost * (needs + trains)
    if adapter is not None:
        down, up = 2 * adapter.rank * matrix.inputs, 2 * adapter.rank * matrix.outputs
        forward += down + up
        backward += down + 2 * up + (down if needs else 0)
    if per_sequence is None:
        total.forward.token(stream, forward)
        total.backward.token(stream, backward)
    else:
        total.forward.sequences += forward * per_sequence
        total.backward.sequences += backward * per_sequence
    return needs or trains or adapter is not None
