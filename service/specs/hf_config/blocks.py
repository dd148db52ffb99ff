"""Building stones of every family: attention and feed-forward matrices, norms, whole blocks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from service.estimation.architecture import Attention, Layer, Matrix, Mlp, Norm, Part, Reads, Vector

QKV = ("q_proj", "k_proj", "v_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a family calls its modules; ``qkv`` and ``gate_up`` are set where they are fused."""

    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    o: str = "o_proj"
    qkv: str | None = None
    gate: str = "gate_proj"
    up: str = "up_proj"
    gate_up: str | None = None
    down: str = "down_proj"


@dataclass(frozen=True, slots=True, kw_only=True)
class Norms:
    """The normalisations of the hidden state in a block."""

    names: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    kind: Norm = "rms"
    scale: bool = True
    bias: bool = False

    def vectors(self, hidden: int) -> tuple[Vector, ...]:
        """Their parameters."""
        size = hidden * (int(self.scale) + int(self.bias))
        return tuple(Vector(name=name, size=size, part="norms") for name in self.names) if size else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A block in the usual form; readers fill it and ``layer`` turns it into matrices."""

    hidden: int
    heads: int
    key_value_heads: int
    head_dim: int
    intermediate: int
    names: Names = Names()
    norms: Norms = Norms()
    gated: bool = True
    activation: str = "silu"
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    query_key_norm: tuple[int, int] | None = None  # parameters of the query's and the key's norm
    window: int | None = None
    causal: bool = True
    rotary: bool = True
    softcap: bool = False
    sinks: bool = False
    parallel_residual: bool = False
    closes: bool = True  # nothing follows the last matrix but the residual sum
    kind: str = "decoder"
    pre_norm: bool = True
    mlp_lora: bool = True
    extra_vectors: tuple[Vector, ...] = field(default=())


def attention_matrices(shape: Shape, *, reads: Reads = "block", output_reads: Reads = "attended", part: Part = "attention") -> list[Matrix]:
    """Query, key, value and output projections, fused where the family fuses them."""
    queries = shape.heads * shape.head_dim
    keys = shape.key_value_heads * shape.head_dim
    names, bias = shape.names, shape.qkv_bias
    if names.qkv is not None:
        inputs = [Matrix(name=names.qkv, inputs=shape.hidden, outputs=queries + 2 * keys, part=part, roles=QKV, bias=bias, reads=reads)]
    else:
        inputs = [
            Matrix(name=name, inputs=shape.hidden, outputs=outputs, part=part, roles=(role,), bias=bias, reads=reads)
            for name, outputs, role in ((names.q, queries, "q_proj"), (names.k, keys, "k_proj"), (names.v, keys, "v_proj"))
        ]
    output = Matrix(
        name=names.o, inputs=queries, outputs=shape.hidden, part=part, roles=("o_proj",), bias=shape.output_bias, reads=output_reads
    )
    return [*inputs, output]


def mlp_matrices(
    names: Names,
    hidden: int,
    intermediate: int,
    *,
    gated: bool,
    bias: bool = False,
    reads: Reads = "middle",
    part: Part = "mlp",
    prefix: str = "",
    copies: int = 1,
    active_copies: float = 1,
    activated: Reads = "activated",
    lora: bool = True,
    lora_materialized: bool = False,
    executed_copies: float | None = None,
) -> list[Matrix]:
    """The matrices of a feed-forward part."""

    def matrix(name: str, inputs: int, outputs: int, roles: tuple[str, ...], reads: Reads) -> Matrix:
        return Matrix(
            name=prefix + name,
            inputs=inputs,
            outputs=outputs,
            part=part,
            roles=roles,
            bias=bias,
            copies=copies,
            active_copies=active_copies,
            reads=reads,
            lora=lora,
            lora_materialized=lora_materialized,
            executed_copies=executed_copies,
        )

    if gated and names.gate_up is not None:
        first = [matrix(names.gate_up, hidden, 2 * intermediate, ("gate_proj", "up_proj"), reads)]
    elif gated:
        first = [
            matrix(names.gate, hidden, intermediate, ("gate_proj",), reads),
            matrix(names.up, hidden, intermediate, ("up_proj",), reads),
        ]
    else:
        first = [matrix(names.up, hidden, intermediate, ("up_proj",), reads)]
    return [*first, matrix(names.down, intermediate, hidden, ("down_proj",), activated)]


def attention_of(shape: Shape) -> Attention:
    """The attention part as plain data."""
    return Attention(
        query_heads=shape.heads,
        key_value_heads=shape.key_value_heads,
        query_key_dim=shape.head_dim,
        value_dim=shape.head_dim,
        window=shape.window,
        causal=shape.causal,
        query_key_norm=shape.query_key_norm is not None,
        rotary=shape.rotary,
        softcap=shape.softcap,
        sinks=shape.sinks,
    )


def attention_vectors(shape: Shape) -> list[Vector]:
    """Query and key norms and sinks."""
    vectors = []
    if shape.query_key_norm is not None and any(shape.query_key_norm):
        vectors.append(Vector(name="q_norm", size=shape.query_key_norm[0], part="norms"))
        vectors.append(Vector(name="k_norm", size=shape.query_key_norm[1], part="norms"))
    if shape.sinks:
        vectors.append(Vector(name="sinks", size=shape.heads, part="attention"))
    return vectors


def layer(shape: Shape) -> Layer:
    """A dense block."""
    reads: Reads = "block" if shape.parallel_residual else "middle"
    mlp = mlp_matrices(
        shape.names, shape.hidden, shape.intermediate, gated=shape.gated, bias=shape.mlp_bias, reads=reads, lora=shape.mlp_lora
    )
    return Layer(
        kind=shape.kind,
        matrices=(*attention_matrices(shape), *mlp),
        vectors=(*attention_vectors(shape), *shape.extra_vectors, *shape.norms.vectors(shape.hidden)),
        attention=attention_of(shape),
        mlp=Mlp(intermediate=shape.intermediate, gated=shape.gated, activation=shape.activation),
        norm=shape.norms.kind,
        norms=len(shape.norms.names),
        parallel_residual=shape.parallel_residual,
        pre_norm=shape.pre_norm,
        closing=shape.names.down if shape.closes else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of a dense feed-forward part."""

    count: int
    per_token: int
    intermediate: int
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    router_bias: bool = False
    router_name: str = "gate"
    # PEFT 0.21 on transformers 5: "adapts" where it knows the family's expert weights (it then takes gate_proj, up_proj and
    # down_proj to mean the experts', so that dense and shared ones of that name get no adapter), "linear" where the router
    # alone is a torch Linear, "none" where neither is.
    peft: Literal["adapts", "linear", "none"] = "none"
    names: Names = Names(gate_up="gate_up_proj")
    shared_intermediate: int = 0
    shared_bias: bool = False
    shared_prefix: str = "shared_experts."
    shared_gate: str | None = None  # a sigmoid gate on the shared expert
    shared_names: Names = Names()
    closing: str | None = None
    executed: int | None = None  # experts that transformers runs every token through, where they are not the chosen ones
    extra_vectors: tuple[Vector, ...] = ()


def mixture(shape: Shape, experts: Experts) -> Layer:
    """A block whose feed-forward part is a mixture of experts (transformers 5 keeps all experts in one tensor)."""
    dense = layer(shape)
    reads: Reads = "block" if shape.parallel_residual else "middle"
    known = experts.peft == "adapts"
    router = Matrix(
        name=experts.router_name,
        inputs=shape.hidden,
        outputs=experts.count,
        part="router",
        bias=experts.router_bias,
        reads=reads,
        lora=experts.peft != "none",
        lora_materialized=known,
    )
    routed = mlp_matrices(
        experts.names,
        shape.hidden,
        experts.intermediate,
        gated=experts.gated,
        bias=experts.bias,
        reads=reads,
        part="experts",
        prefix="experts.",
        copies=experts.count,
        active_copies=experts.per_token,
        lora=known,
        lora_materialized=known,
        executed_copies=experts.executed,
    )
    shared: list[Matrix] = []
    if experts.shared_intermediate:
        shared = mlp_matrices(
            experts.shared_names,
            shape.hidden,
            experts.shared_intermediate,
            gated=experts.gated,
            bias=experts.shared_bias,
            reads=reads,
            part="shared_experts",
            prefix=experts.shared_prefix,
            activated="shared_activated",
            lora=not known,
        )
        if experts.shared_gate is not None:
            shared.append(Matrix(name=experts.shared_gate, inputs=shape.hidden, outputs=1, part="shared_experts", reads=reads))
    return replace(
        dense,
        kind="moe",
        matrices=(*attention_matrices(shape), router, *routed, *shared),
        vectors=(*dense.vectors, *experts.extra_vectors),
        mlp=Mlp(
            intermediate=experts.intermediate,
            gated=experts.gated,
            activation=experts.activation,
            experts=experts.count,
            experts_per_token=experts.per_token,
            shared_intermediate=experts.shared_intermediate,
        ),
        closing=experts.closing,
    )
