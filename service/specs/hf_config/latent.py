"""Multi-head latent attention: DeepSeek V2 and V3, Kimi K2, MiniCPM 3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from service.estimation.architecture import Architecture, Attention, Layer, Matrix, Vector

from .assemble import language_model
from .blocks import Experts, Shape, layer, mixture
from .fields import Fields
from .llama_like import activation


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """The ranks and head widths of latent attention."""

    query_rank: int | None
    key_value_rank: int
    nope: int
    rope: int
    value: int

    @property
    def query_key(self) -> int:
        """Width of one head's query and key."""
        return self.nope + self.rope


def read_latent(fields: Fields) -> Latent:
    """The ranks and widths of a config."""
    return Latent(
        query_rank=fields.optional_integer("q_lora_rank", least=1),
        key_value_rank=fields.integer("kv_lora_rank"),
        nope=fields.integer("qk_nope_head_dim"),
        rope=fields.integer("qk_rope_head_dim"),
        value=fields.integer("v_head_dim", fields.integer("hidden_size") // fields.integer("num_attention_heads")),
    )


def with_latent_attention(block: Layer, hidden: int, heads: int, latent: Latent, *, bias: bool) -> Layer:
    """The block with latent attention in place of its own."""
    queries = heads * latent.query_key
    matrices: list[Matrix] = []
    vectors: list[Vector] = []
    if latent.query_rank is None:
        matrices.append(Matrix(name="q_proj", inputs=hidden, outputs=queries, part="attention", roles=("q_proj",)))
    else:
        matrices += [
            Matrix(name="q_a_proj", inputs=hidden, outputs=latent.query_rank, part="attention", roles=("q_proj",), bias=bias),
            Matrix(name="q_b_proj", inputs=latent.query_rank, outputs=queries, part="attention", roles=("q_proj",), reads="query_latent"),
        ]
        vectors.append(Vector(name="q_a_layernorm", size=latent.query_rank, part="norms"))
    both = ("k_proj", "v_proj")
    matrices += [
        Matrix(
            name="kv_a_proj_with_mqa", inputs=hidden, outputs=latent.key_value_rank + latent.rope, part="attention", roles=both, bias=bias
        ),
        Matrix(
            name="kv_b_proj",
            inputs=latent.key_value_rank,
            outputs=heads * (latent.nope + latent.value),
            part="attention",
            roles=both,
            reads="key_value_latent",
        ),
        Matrix(
            name="o_proj", inputs=heads * latent.value, outputs=hidden, part="attention", roles=("o_proj",), bias=bias, reads="attended"
        ),
    ]
    vectors.append(Vector(name="kv_a_layernorm", size=latent.key_value_rank, part="norms"))
    rest = tuple(matrix for matrix in block.matrices if matrix.part != "attention")
    attention = Attention(
        query_heads=heads,
        key_value_heads=heads,
        query_key_dim=latent.query_key,
        value_dim=latent.value,
        latent=True,
        query_lora_rank=latent.query_rank,
        key_value_lora_rank=latent.key_value_rank,
        rope_dim=latent.rope,
    )
    return replace(block, matrices=(*matrices, *rest), vectors=(*vectors, *block.vectors), attention=attention)


def _shape(fields: Fields, latent: Latent) -> Shape:
    heads = fields.integer("num_attention_heads")
    return Shape(
        hidden=fields.integer("hidden_size"),
        heads=heads,
        key_value_heads=heads,
        head_dim=latent.query_key,
        intermediate=fields.integer("intermediate_size"),
        activation=activation(fields),
        mlp_bias=fields.flag("mlp_bias") if fields.model_type != "deepseek_v3" else False,
    )


def deepseek(fields: Fields) -> Architecture:
    """DeepSeek V2 and V3, Kimi K2: dense layers first, then routed and shared experts."""
    latent = read_latent(fields)
    shape = _shape(fields, latent)
    bias = fields.flag("attention_bias")
    expert_width = fields.integer("moe_intermediate_size")
    count = fields.integer("n_routed_experts")
    chosen = fields.integer("num_experts_per_tok")
    if chosen > count:
        raise fields.error("num_experts_per_tok", "is more than there are experts")
    shared = fields.integer("n_shared_experts", 0, least=0)
    experts = Experts(
        count=count,
        per_token=chosen,
        intermediate=expert_width,
        activation=shape.activation,
        shared_intermediate=expert_width * shared,
        shared_bias=shape.mlp_bias,
        closing="shared_experts.down_proj" if shared else None,
        peft="adapts",
    )
    first = fields.integer("first_k_dense_replace", 0, least=0)
    step = fields.integer("moe_layer_freq", 1)
    number = fields.layers()
    dense = with_latent_attention(layer(replace(shape, mlp_lora=False)), shape.hidden, shape.heads, latent, bias=bias)
    sparse = with_latent_attention(mixture(shape, experts), shape.hidden, shape.heads, latent, bias=bias)
    layers = tuple(sparse if index >= first and index % step == 0 else dense for index in range(number))
    extra = fields.integer("num_nextn_predict_layers", 0, least=0)
    if extra:
        fields.assume(f"{extra} multi-token-prediction layer(s) are counted apart from the model, as transformers loads it")
    return language_model(fields, layers, hidden=shape.hidden, tied_default=False, multi_token_prediction_layers=extra)


def minicpm3(fields: Fields) -> Architecture:
    """MiniCPM 3: latent attention, dense feed-forward."""
    latent = read_latent(fields)
    shape = _shape(fields, latent)
    bias = fields.flag("attention_bias")
    block = with_latent_attention(layer(shape), shape.hidden, shape.heads, latent, bias=bias)
    return language_model(fields, (block,) * fields.layers(), hidden=shape.hidden)


READERS: dict[str, Callable[[Fields], Architecture]] = {"deepseek_v2": deepseek, "deepseek_v3": deepseek, "minicpm3": minicpm3}
