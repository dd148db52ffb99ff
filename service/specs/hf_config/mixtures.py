"""Mixtures of experts on ordinary attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from service.estimation.architecture import Architecture, Layer

from .assemble import language_model, layer_windows
from .blocks import Experts, Names, Norms, Shape, layer, mixture
from .fields import Fields
from .llama_like import _qwen_window, activation, base, full_norms, head_norms


def sparse_model(
    fields: Fields,
    shape: Shape,
    experts: Experts,
    *,
    sparse: Callable[[int], bool] = lambda _: True,
    windows: list[int | None] | None = None,
    dense: Shape | None = None,
    tied_default: bool = True,
    final_norm: Norms | None = None,
    head_bias: bool = False,
    multi_token_prediction_layers: int = 0,
) -> Architecture:
    """A model whose layer ``i`` is a mixture where ``sparse(i)``, else the dense shape."""
    count = fields.layers()
    chosen = windows or [shape.window] * count
    plain = dense or shape
    plain = replace(plain, mlp_lora=experts.peft != "adapts")
    built: dict[tuple[bool, int | None], Layer] = {}
    layers: list[Layer] = []
    for index in range(count):
        key = (sparse(index), chosen[index])
        if key not in built:
            windowed = replace(shape if key[0] else plain, window=key[1])
            built[key] = mixture(windowed, experts) if key[0] else layer(windowed)
        layers.append(built[key])
    return language_model(
        fields,
        tuple(layers),
        hidden=shape.hidden,
        tied_default=tied_default,
        final_norm=final_norm,
        head_bias=head_bias,
        multi_token_prediction_layers=multi_token_prediction_layers,
    )


def _per_token(fields: Fields, experts: int, name: str = "num_experts_per_tok") -> int:
    chosen = fields.integer(name)
    if chosen > experts:
        raise fields.error(name, "is more than there are experts")
    return chosen


def mixtral(fields: Fields) -> Architecture:
    """Mixtral."""
    shape = base(fields)
    count = fields.integer("num_local_experts")
    experts = Experts(
        count=count, per_token=_per_token(fields, count), intermediate=shape.intermediate, activation=shape.activation, peft="adapts"
    )
    return sparse_model(fields, replace(shape, window=fields.optional_integer("sliding_window", least=1)), experts, tied_default=False)


def _qwen_sparse(fields: Fields) -> Callable[[int], bool]:
    step = fields.integer("decoder_sparse_step")
    dense = set(fields.integers("mlp_only_layers") or [])
    return lambda index: index not in dense and (index + 1) % step == 0


def _qwen_windows(fields: Fields) -> list[int | None]:
    window, sliding = _qwen_window(fields)
    return layer_windows(fields, fields.layers(), window, sliding)


def qwen2_moe(fields: Fields) -> Architecture:
    """Qwen 1.5 and 2 MoE: routed experts and one gated shared expert (PEFT 0.21 does not map this type's experts)."""
    bias = fields.flag("qkv_bias", True)
    shape = replace(base(fields), qkv_bias=bias)
    count = fields.integer("num_experts")
    experts = Experts(
        count=count,
        per_token=_per_token(fields, count),
        intermediate=fields.integer("moe_intermediate_size"),
        activation=shape.activation,
        shared_intermediate=fields.integer("shared_expert_intermediate_size"),
        shared_prefix="shared_expert.",
        shared_gate="shared_expert_gate",
    )
    return sparse_model(fields, shape, experts, sparse=_qwen_sparse(fields), windows=_qwen_windows(fields))


def qwen3_moe(fields: Fields) -> Architecture:
    """Qwen 3 MoE."""
    shape = head_norms(base(fields, attention_bias=fields.flag("attention_bias")))
    count = fields.integer("num_experts")
    experts = Experts(
        count=count,
        per_token=_per_token(fields, count),
        intermediate=fields.integer("moe_intermediate_size"),
        activation=shape.activation,
        peft="adapts",
    )
    windows = None
    if fields.flag("use_sliding_window"):
        windows = [fields.optional_integer("sliding_window", least=1)] * fields.layers()
    return sparse_model(fields, shape, experts, sparse=_qwen_sparse(fields), windows=windows)


def gpt_oss(fields: Fields) -> Architecture:
    """gpt-oss: biases throughout, attention sinks, every other layer windowed."""
    shape = replace(base(fields, attention_bias=fields.flag("attention_bias")), sinks=True)
    count = fields.integer("num_local_experts")
    experts = Experts(
        count=count,
        per_token=_per_token(fields, count),
        intermediate=shape.intermediate,
        activation="swiglu",
        bias=True,
        router_bias=True,
        router_name="router",
    )
    window = fields.optional_integer("sliding_window", least=1)
    windows = layer_windows(fields, fields.layers(), window, lambda index: index % 2 == 0)
    return sparse_model(fields, shape, experts, windows=windows, tied_default=False)


def olmoe(fields: Fields) -> Architecture:
    """OLMoE: norms on the whole query and key."""
    shape = full_norms(base(fields, attention_bias=fields.flag("attention_bias"), own_head_dim=False))
    count = fields.integer("num_experts")
    experts = Experts(
        count=count, per_token=_per_token(fields, count), intermediate=shape.intermediate, activation=shape.activation, peft="adapts"
    )
    return sparse_model(fields, shape, experts)


def phimoe(fields: Fields) -> Architecture:
    """Phi-3.5 MoE: layer norms with biases."""
    norms = Norms(kind="layer", bias=True)
    shape = base(fields, attention_bias=fields.flag("attention_bias"), norms=norms)
    count = fields.integer("num_local_experts")
    experts = Experts(
        count=count,
        per_token=_per_token(fields, count),
        intermediate=shape.intermediate,
        activation=shape.activation,
        router_name="router",
        peft="linear",
    )
    shape = replace(shape, window=fields.optional_integer("sliding_window", least=1))
    final = replace(norms, names=("norm",))
    return sparse_model(fields, shape, experts, final_norm=final, head_bias=fields.flag("lm_head_bias"))


def granitemoe(fields: Fields) -> Architecture:
    """Granite 3 MoE."""
    shape = base(fields, attention_bias=fields.flag("attention_bias"))
    count = fields.integer("num_local_experts")
    experts = Experts(
        count=count, per_token=_per_token(fields, count), intermediate=shape.intermediate, activation=shape.activation, router_name="router"
    )
    return sparse_model(fields, shape, experts)


def llama4(fields: Fields) -> Architecture:
    """Llama 4's text model: one shared expert, chunked attention in the layers with rotary positions."""
    bias = fields.flag("attention_bias")
    shape = base(fields, attention_bias=bias)
    count = fields.layers()
    number = fields.integer("num_local_experts")
    experts = Experts(
        count=number,
        per_token=_per_token(fields, number),
        intermediate=shape.intermediate,
        activation=shape.activation,
        router_name="router",
        peft="linear",
        shared_intermediate=shape.intermediate,
        shared_prefix="shared_expert.",
        closing="shared_expert.down_proj",
        executed=number,
    )
    step = fields.integer("interleave_moe_layer_step")
    listed = fields.integers("moe_layers")
    sparse = set(range(step - 1, count, step)) if listed is None else set(listed)
    interval = fields.integer("no_rope_layer_interval", 4)
    chunk = fields.optional_integer("attention_chunk_size", least=1)
    no_rope = fields.integers("no_rope_layers")
    rotary = [bool(flag) for flag in no_rope] if no_rope else [(index + 1) % interval != 0 for index in range(count)]
    if len(rotary) < count:
        raise fields.error("no_rope_layers", f"has {len(rotary)} entries for {count} layers")
    windows = layer_windows(fields, count, chunk, lambda index: rotary[index])
    if chunk is not None:
        fields.assume("chunked attention of Llama 4 is counted as a window of the chunk's length (an upper bound)")
    dense = replace(shape, intermediate=fields.integer("intermediate_size_mlp"))
    return sparse_model(fields, shape, experts, sparse=lambda index: index in sparse, windows=windows, dense=dense, tied_default=False)


def glm4_moe(fields: Fields) -> Architecture:
    """GLM-4.5: dense layers first, then routed and shared experts."""
    if not fields.has("head_dim"):  # hidden size / heads, rounded down
        fields.config = {**fields.config, "head_dim": fields.integer("hidden_size") // fields.integer("num_attention_heads")}
    shape = replace(base(fields), qkv_bias=fields.flag("attention_bias"))
    if fields.flag("use_qk_norm"):
        shape = head_norms(shape)
    expert_width = fields.integer("moe_intermediate_size")
    count = fields.integer("n_routed_experts")
    shared = fields.integer("n_shared_experts", 0, least=0)
    experts = Experts(
        count=count,
        per_token=_per_token(fields, count),
        intermediate=expert_width,
        activation=shape.activation,
        shared_intermediate=expert_width * shared,
        closing="shared_experts.down_proj" if shared else None,
        peft="adapts",
    )
    first = fields.integer("first_k_dense_replace", 0, least=0)
    return sparse_model(
        fields,
        shape,
        experts,
        sparse=lambda index: index >= first,
        multi_token_prediction_layers=fields.integer("num_nextn_predict_layers", 0, least=0),
    )


def dbrx(fields: Fields) -> Architecture:
    """DBRX."""
    hidden = fields.integer("d_model")
    heads = fields.integer("n_heads")
    attention = fields.nested("attn_config", {"kv_n_heads": 1})
    feed_forward = fields.nested("ffn_config", {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1})
    norms = Norms(names=("norm_1", "norm_2"), kind="layer")
    intermediate = feed_forward.integer("ffn_hidden_size")
    shape = Shape(
        hidden=hidden,
        heads=heads,
        key_value_heads=attention.integer("kv_n_heads", heads),
        head_dim=hidden // heads,
        intermediate=intermediate,
        names=Names(qkv="Wqkv", o="out_proj"),
        norms=norms,
        activation=activation(fields),
    )
    count = feed_forward.integer("moe_num_experts")
    names = Names(gate="w1", up="v1", down="w2")
    experts = Experts(
        count=count,
        per_token=_per_token(feed_forward, count, "moe_top_k"),
        intermediate=intermediate,
        router_name="router.layer",
        peft="linear",
        names=names,
    )
    return sparse_model(fields, shape, experts, tied_default=False, final_norm=replace(norms, names=("norm_f",)))


READERS: dict[str, Callable[[Fields], Architecture]] = {
    "mixtral": mixtral,
    "qwen2_moe": qwen2_moe,
    "qwen3_moe": qwen3_moe,
    "gpt_oss": gpt_oss,
    "olmoe": olmoe,
    "phimoe": phimoe,
    "granitemoe": granitemoe,
    "llama4_text": llama4,
    "glm4_moe": glm4_moe,
    "dbrx": dbrx,
}
