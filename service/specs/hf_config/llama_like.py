"""Pre-norm decoders with rotary positions and a gated feed-forward part, and what each family changes in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from service.estimation.architecture import Architecture, Vector

from .assemble import blocks_of, language_model, layer_windows
from .blocks import Names, Norms, Shape
from .fields import Fields

FUSED_GATE_UP = Names(gate_up="gate_up_proj")
GEMMA_NORMS = Norms(names=("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"))
POST_NORMS = Norms(names=("post_attention_layernorm", "post_feedforward_layernorm"))
LAYER_NORMS = Norms(kind="layer", bias=True)
FINAL_LAYER_NORM = Norms(names=("norm",), kind="layer", bias=True)


def base(
    fields: Fields, *, attention_bias: bool = False, mlp_bias: bool = False, norms: Norms | None = None, own_head_dim: bool = True
) -> Shape:
    """The plain Llama block; without ``own_head_dim`` the family takes hidden size / heads whatever the config says."""
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    key_value_heads = fields.integer("num_key_value_heads", heads)
    if heads % key_value_heads:
        raise fields.error("num_key_value_heads", "must divide num_attention_heads")
    head_dim = fields.optional_integer("head_dim", least=1) if own_head_dim else None
    if head_dim is None:
        if hidden % heads:
            raise fields.error("hidden_size", "must be a multiple of num_attention_heads where head_dim is not given")
        head_dim = hidden // heads
    return Shape(
        hidden=hidden,
        heads=heads,
        key_value_heads=key_value_heads,
        head_dim=head_dim,
        intermediate=fields.integer("intermediate_size"),
        activation=activation(fields),
        norms=norms or Norms(),
        qkv_bias=attention_bias,
        output_bias=attention_bias,
        mlp_bias=mlp_bias,
    )


def activation(fields: Fields) -> str:
    """The activation's name."""
    for name in ("hidden_activation", "hidden_act", "activation_function", "activation"):
        if fields.has(name):
            return fields.text(name)
    return fields.text("hidden_act") or fields.text("hidden_activation") or fields.text("activation_function", "silu")


def head_norms(shape: Shape) -> Shape:
    """Query and key norms over one head (Qwen3, Gemma 3)."""
    return replace(shape, query_key_norm=(shape.head_dim, shape.head_dim))


def full_norms(shape: Shape) -> Shape:
    """Query and key norms over all heads (OLMo 2, Cohere)."""
    return replace(shape, query_key_norm=(shape.heads * shape.head_dim, shape.key_value_heads * shape.head_dim))


def uniform(fields: Fields, shape: Shape, window: int | None = None, **options: object) -> Architecture:
    """A model whose blocks are all alike."""
    layers = blocks_of([replace(shape, window=window)] * fields.layers())
    return language_model(fields, layers, hidden=shape.hidden, **options)  # type: ignore[arg-type]


def patterned(
    fields: Fields, shape: Shape, sliding: Callable[[int], bool], *, window: int | None = None, **options: object
) -> Architecture:
    """A model whose layers alternate between full and sliding-window attention."""
    count = fields.layers()
    if window is None:
        window = fields.optional_integer("sliding_window", least=1)
    windows = layer_windows(fields, count, window, sliding)
    layers = blocks_of(replace(shape, window=each) for each in windows)
    return language_model(fields, layers, hidden=shape.hidden, **options)  # type: ignore[arg-type]


def llama(fields: Fields) -> Architecture:
    """Llama 1 to 3, Yi, Vicuna, SmolLM 1 and 2, DeepSeek's dense models."""
    return uniform(fields, base(fields, attention_bias=fields.flag("attention_bias"), mlp_bias=fields.flag("mlp_bias")), tied_default=False)


def generic(fields: Fields) -> Architecture:
    """An unknown type read as a Llama; its ``layer_types`` are honoured where it has them."""
    if not fields.has("layer_types"):
        return llama(fields)
    shape = base(fields, attention_bias=fields.flag("attention_bias"), mlp_bias=fields.flag("mlp_bias"))
    return patterned(fields, shape, lambda _: False, tied_default=False)


def mistral(fields: Fields) -> Architecture:
    """Mistral: one window for all layers."""
    return uniform(fields, base(fields), fields.optional_integer("sliding_window", least=1))


def ministral(fields: Fields) -> Architecture:
    """Ministral: windows by layer."""
    return patterned(fields, base(fields), lambda _: True)


def _qwen_window(fields: Fields) -> tuple[int | None, Callable[[int], bool]]:
    if not fields.flag("use_sliding_window"):
        return None, lambda _: False
    first = fields.integer("max_window_layers", 0, least=0)
    return fields.optional_integer("sliding_window", least=1), lambda index: index >= first


def _qwen(fields: Fields, shape: Shape) -> Architecture:
    window, sliding = _qwen_window(fields)
    count = fields.layers()
    windows = layer_windows(fields, count, window, sliding)
    return language_model(fields, blocks_of(replace(shape, window=each) for each in windows), hidden=shape.hidden)


def qwen2(fields: Fields) -> Architecture:
    """Qwen 1.5, 2 and 2.5: biases on q, k and v."""
    return _qwen(fields, replace(base(fields), qkv_bias=True))


def qwen3(fields: Fields) -> Architecture:
    """Qwen 3: a norm on each head's query and key."""
    return _qwen(fields, head_norms(base(fields, attention_bias=fields.flag("attention_bias"))))


def gemma(fields: Fields) -> Architecture:
    """Gemma 1."""
    return uniform(fields, base(fields, attention_bias=fields.flag("attention_bias")))


def gemma2(fields: Fields) -> Architecture:
    """Gemma 2: norms before and after each part, every other layer windowed, capped logits."""
    shape = replace(
        base(fields, attention_bias=fields.flag("attention_bias"), norms=GEMMA_NORMS),
        softcap=_capped(fields, "attn_logit_softcapping"),
        closes=False,
    )
    return patterned(fields, shape, lambda index: index % 2 == 0, logit_softcap=_capped(fields, "final_logit_softcapping"))


def _capped(fields: Fields, name: str) -> bool:
    """Whether a soft cap is in force; an explicit null switches it off."""
    return fields.has(name) or (not fields.given(name) and fields.number(name) > 0)


def gemma3(fields: Fields) -> Architecture:
    """Gemma 3's text model: head norms, five windowed layers to one full."""
    shape = replace(head_norms(base(fields, attention_bias=fields.flag("attention_bias"), norms=GEMMA_NORMS)), closes=False)
    pattern = fields.integer("sliding_window_pattern", fields.integer("_sliding_window_pattern", 6))
    return patterned(
        fields,
        replace(shape, softcap=_capped(fields, "attn_logit_softcapping")),
        lambda index: (index + 1) % pattern != 0,
        logit_softcap=_capped(fields, "final_logit_softcapping"),
    )


def phi3(fields: Fields) -> Architecture:
    """Phi-3 and Phi-4: fused projections."""
    shape = replace(base(fields), names=Names(qkv="qkv_proj", gate_up="gate_up_proj"))
    return uniform(fields, shape, fields.optional_integer("sliding_window", least=1))


def olmo(fields: Fields) -> Architecture:
    """OLMo 1: layer norms without parameters."""
    norms = Norms(kind="layer", scale=False)
    return uniform(
        fields, base(fields, attention_bias=fields.flag("attention_bias"), norms=norms), final_norm=replace(norms, names=("norm",))
    )


def _olmo2_shape(fields: Fields) -> Shape:
    shape = base(fields, attention_bias=fields.flag("attention_bias"), norms=POST_NORMS)
    return replace(full_norms(shape), closes=False, pre_norm=False)


def olmo2(fields: Fields) -> Architecture:
    """OLMo 2: norms after each part, and on the whole query and key."""
    return uniform(fields, _olmo2_shape(fields))


def olmo3(fields: Fields) -> Architecture:
    """OLMo 3: OLMo 2 with three windowed layers to one full."""
    return patterned(fields, _olmo2_shape(fields), lambda index: (index + 1) % 4 != 0)


def nemotron(fields: Fields) -> Architecture:
    """Nemotron: layer norms, squared ReLU without a gate."""
    shape = base(fields, attention_bias=fields.flag("attention_bias"), mlp_bias=fields.flag("mlp_bias"), norms=LAYER_NORMS)
    return uniform(fields, replace(shape, gated=False), final_norm=FINAL_LAYER_NORM)


def starcoder2(fields: Fields) -> Architecture:
    """StarCoder 2: biases throughout, layer norms, no gate."""
    bias = fields.flag("use_bias")
    shape = base(fields, attention_bias=bias, mlp_bias=bias, norms=LAYER_NORMS)
    shape = replace(shape, gated=False, names=Names(up="c_fc", down="c_proj"))
    return uniform(fields, shape, fields.optional_integer("sliding_window", least=1), final_norm=FINAL_LAYER_NORM)


def _cohere_shape(fields: Fields) -> Shape:
    norms = Norms(names=("input_layernorm",), kind="layer")
    return replace(base(fields, attention_bias=fields.flag("attention_bias"), norms=norms), parallel_residual=True)


def cohere(fields: Fields) -> Architecture:
    """Command-R: attention and feed-forward side by side after one norm."""
    shape = _cohere_shape(fields)
    if fields.flag("use_qk_norm"):
        shape = full_norms(shape)
    return uniform(fields, shape, final_norm=Norms(names=("norm",), kind="layer"))


def cohere2(fields: Fields) -> Architecture:
    """Command-R7B and A: three windowed layers to one full."""
    pattern = fields.integer("sliding_window_pattern", fields.integer("_sliding_window_pattern", 4))
    final = Norms(names=("norm",), kind="layer")
    return patterned(fields, _cohere_shape(fields), lambda index: (index + 1) % pattern != 0, final_norm=final)


def stablelm(fields: Fields) -> Architecture:
    """StableLM 2 and 3B: layer norms, optional head norms and parallel blocks."""
    parallel = fields.flag("use_parallel_residual")
    norms = replace(LAYER_NORMS, names=("input_layernorm",)) if parallel else LAYER_NORMS
    shape = replace(base(fields, norms=norms, own_head_dim=False), qkv_bias=fields.flag("use_qkv_bias"), parallel_residual=parallel)
    if fields.flag("qk_layernorm"):
        shape = full_norms(shape)
    return uniform(fields, shape, final_norm=FINAL_LAYER_NORM)


def glm(fields: Fields) -> Architecture:
    """GLM-4 (9B, ``glm``): biases on q, k and v, fused gate and up."""
    shape = replace(base(fields), qkv_bias=fields.flag("attention_bias"), names=FUSED_GATE_UP)
    return uniform(fields, shape)


def glm4(fields: Fields) -> Architecture:
    """GLM-4-0414 and later (``glm4``): norms after each part too."""
    norms = Norms(names=("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"))
    shape = replace(base(fields, norms=norms), qkv_bias=fields.flag("attention_bias"), names=FUSED_GATE_UP, closes=False)
    return uniform(fields, shape)


def granite(fields: Fields) -> Architecture:
    """Granite 3: Llama with scaled embeddings, residuals and logits."""
    return llama(fields)


def exaone4(fields: Fields) -> Architecture:
    """EXAONE 4: norms after each part, head norms, three windowed layers to one full."""
    shape = replace(head_norms(base(fields, norms=POST_NORMS)), closes=False, pre_norm=False)
    pattern = fields.optional_integer("sliding_window_pattern")
    window = fields.optional_integer("sliding_window")
    if pattern is None or not pattern or window is None:
        return uniform(fields, shape)
    return patterned(fields, shape, lambda index: (index + 1) % pattern != 0 and index != fields.layers() - 1)


def seed_oss(fields: Fields) -> Architecture:
    """Seed-OSS."""
    shape = base(fields, mlp_bias=fields.flag("mlp_bias"))
    return uniform(fields, replace(shape, qkv_bias=fields.flag("attention_bias"), output_bias=fields.flag("attention_out_bias")))


def ernie(fields: Fields) -> Architecture:
    """ERNIE 4.5, dense."""
    bias = fields.flag("use_bias")
    return uniform(fields, base(fields, attention_bias=bias, mlp_bias=bias))


def arcee(fields: Fields) -> Architecture:
    """Arcee AFM: squared ReLU without a gate."""
    shape = base(fields, attention_bias=fields.flag("attention_bias"), mlp_bias=fields.flag("mlp_bias"))
    return uniform(fields, replace(shape, gated=False))


def hunyuan(fields: Fields) -> Architecture:
    """Hunyuan, dense: head norms after the rotation."""
    return uniform(fields, head_norms(base(fields, attention_bias=fields.flag("attention_bias"))))


def apertus(fields: Fields) -> Architecture:
    """Apertus: head norms, xIELU without a gate (two learnt scalars a layer)."""
    shape = head_norms(base(fields, attention_bias=fields.flag("attention_bias")))
    scalars = (Vector(name="act_fn", size=2, part="mlp"),)
    norms = Norms(names=("attention_layernorm", "feedforward_layernorm"))
    return uniform(fields, replace(shape, gated=False, extra_vectors=scalars, norms=norms))


def helium(fields: Fields) -> Architecture:
    """Helium: no bias on the output projection."""
    shape = base(fields, mlp_bias=fields.flag("mlp_bias"))
    return uniform(fields, replace(shape, qkv_bias=fields.flag("attention_bias")))


def internlm3(fields: Fields) -> Architecture:
    """InternLM 3."""
    shape = base(fields, mlp_bias=fields.flag("bias"))
    return uniform(fields, replace(shape, qkv_bias=fields.flag("qkv_bias"), output_bias=fields.flag("bias")), tied_default=False)


READERS: dict[str, Callable[[Fields], Architecture]] = {
    "llama": llama,
    "mistral": mistral,
    "ministral": ministral,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3,
    "phi3": phi3,
    "olmo": olmo,
    "olmo2": olmo2,
    "olmo3": olmo3,
    "nemotron": nemotron,
    "smollm3": llama,
    "helium": helium,
    "starcoder2": starcoder2,
    "cohere": cohere,
    "cohere2": cohere2,
    "stablelm": stablelm,
    "glm": glm,
    "glm4": glm4,
    "granite": granite,
    "exaone4": exaone4,
    "seed_oss": seed_oss,
    "ernie4_5": ernie,
    "arcee": arcee,
    "hunyuan_v1_dense": hunyuan,
    "apertus": apertus,
    "internlm3": internlm3,
}
