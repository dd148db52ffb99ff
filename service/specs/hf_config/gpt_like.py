"""GPT-style decoders: layer norms, biases, learned or ALiBi positions, parallel blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from service.estimation.architecture import Architecture, Matrix, Vector

from .assemble import blocks_of, language_model
from .blocks import Names, Norms, Shape
from .fields import Fields
from .llama_like import activation

LAYER_NORMS = Norms(names=("ln_1", "ln_2"), kind="layer", bias=True)
FINAL = Norms(names=("ln_f",), kind="layer", bias=True)


def _shape(fields: Fields, hidden: int, heads: int, *, intermediate: int, bias: bool = True, **options: object) -> Shape:
    if hidden % heads:
        raise fields.error("hidden_size", "must be a multiple of the number of heads")
    shape = Shape(
        hidden=hidden,
        heads=heads,
        key_value_heads=heads,
        head_dim=hidden // heads,
        intermediate=intermediate,
        gated=False,
        activation=activation(fields),
        norms=LAYER_NORMS,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=bias,
        rotary=False,
    )
    return replace(shape, **options)  # type: ignore[arg-type]


def gpt2(fields: Fields) -> Architecture:
    """GPT-2: fused q, k and v, learned positions, tied head."""
    hidden = fields.integer("n_embd")
    names = Names(qkv="attn.c_attn", o="attn.c_proj", up="mlp.c_fc", down="mlp.c_proj")
    shape = _shape(fields, hidden, fields.integer("n_head"), intermediate=fields.integer("n_inner", 4 * hidden), names=names)
    shape = replace(shape, closes=not fields.drops("resid_pdrop"))
    if fields.flag("add_cross_attention"):
        raise fields.error("add_cross_attention", "cross-attention in a GPT-2 decoder is not covered")
    layers = blocks_of([shape] * fields.layers("n_layer"))
    return language_model(
        fields, layers, hidden=hidden, positions=fields.integer("n_positions"), final_norm=FINAL, max_positions="n_positions"
    )


def gpt_bigcode(fields: Fields) -> Architecture:
    """SantaCoder and StarCoder: GPT-2 with one key and value head."""
    hidden = fields.integer("n_embd")
    heads = fields.integer("n_head")
    names = Names(qkv="attn.c_attn", o="attn.c_proj", up="mlp.c_fc", down="mlp.c_proj")
    shape = _shape(fields, hidden, heads, intermediate=fields.integer("n_inner", 4 * hidden), names=names)
    shape = replace(shape, key_value_heads=1 if fields.flag("multi_query", True) else heads, closes=not fields.drops("resid_pdrop"))
    layers = blocks_of([shape] * fields.layers("n_layer"))
    return language_model(
        fields, layers, hidden=hidden, positions=fields.integer("n_positions"), final_norm=FINAL, max_positions="n_positions"
    )


def gpt_neo(fields: Fields) -> Architecture:
    """GPT-Neo: local and global layers in turn, no bias on q, k and v."""
    hidden = fields.integer("hidden_size")
    names = Names(o="out_proj", up="c_fc", down="c_proj")
    shape = _shape(fields, hidden, fields.integer("num_heads"), intermediate=fields.integer("intermediate_size", 4 * hidden), names=names)
    shape = replace(shape, qkv_bias=False, closes=not fields.drops("resid_dropout"))
    count = fields.layers("num_layers")
    window = fields.integer("window_size")
    kinds = _neo_kinds(fields) or (["global", "local"] * count)
    if len(kinds) < count:
        raise fields.error("attention_types", f"names {len(kinds)} layers of {count}")
    layers = blocks_of(replace(shape, window=window if kind == "local" else None) for kind in kinds[:count])
    positions = fields.integer("max_position_embeddings")
    return language_model(fields, layers, hidden=hidden, positions=positions, final_norm=FINAL)


def _neo_kinds(fields: Fields) -> list[str]:
    """``[[["global", "local"], 12]]`` written out."""
    kinds: list[str] = []
    for group in fields.items("attention_types") or []:
        if not (isinstance(group, list) and len(group) == 2 and isinstance(group[0], list) and isinstance(group[1], int)):
            raise fields.error("attention_types", "must be a list of [kinds, repeats]")
        kinds.extend(group[0] * min(group[1], 4096))
    return kinds


def gptj(fields: Fields) -> Architecture:
    """GPT-J: one norm, attention and feed-forward side by side, a bias on the head."""
    hidden = fields.integer("n_embd")
    names = Names(o="out_proj", up="fc_in", down="fc_out")
    shape = _shape(fields, hidden, fields.integer("n_head"), intermediate=fields.integer("n_inner", 4 * hidden), names=names)
    shape = replace(
        shape,
        norms=replace(LAYER_NORMS, names=("ln_1",)),
        parallel_residual=True,
        qkv_bias=False,
        output_bias=False,
        rotary=True,
        closes=not fields.drops("resid_pdrop"),
    )
    layers = blocks_of([shape] * fields.layers("n_layer"))
    return language_model(fields, layers, hidden=hidden, tied_default=False, final_norm=FINAL, head_bias=True, max_positions="n_positions")


def codegen(fields: Fields) -> Architecture:
    """CodeGen: GPT-J with fused q, k and v."""
    model = gptj(fields)
    old = model.layers[0]
    width = old.matrices[0].outputs
    fused = replace(old.matrices[0], name="qkv_proj", outputs=3 * width, roles=("q_proj", "k_proj", "v_proj"))
    block = replace(old, matrices=(fused, *old.matrices[3:]))
    return replace(model, layers=(block,) * len(model.layers))


def gpt_neox(fields: Fields) -> Architecture:
    """GPT-NeoX and Pythia: parallel blocks with two norms."""
    hidden = fields.integer("hidden_size")
    names = Names(qkv="query_key_value", o="attention.dense", up="dense_h_to_4h", down="dense_4h_to_h")
    bias = fields.flag("attention_bias", True)
    shape = _shape(fields, hidden, fields.integer("num_attention_heads"), intermediate=fields.integer("intermediate_size"), names=names)
    shape = replace(
        shape,
        norms=replace(LAYER_NORMS, names=("input_layernorm", "post_attention_layernorm")),
        qkv_bias=bias,
        output_bias=bias,
        rotary=True,
        parallel_residual=fields.flag("use_parallel_residual", True),
        closes=not fields.drops("hidden_dropout"),
    )
    layers = blocks_of([shape] * fields.layers())
    return language_model(fields, layers, hidden=hidden, tied_default=False, final_norm=replace(FINAL, names=("final_layer_norm",)))


def phi(fields: Fields) -> Architecture:
    """Phi-1, 1.5 and 2: one norm, parallel blocks, a bias on the head."""
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    names = Names(o="dense", up="fc1", down="fc2")
    shape = _shape(fields, hidden, heads, intermediate=fields.integer("intermediate_size"), names=names)
    shape = replace(
        shape,
        key_value_heads=fields.integer("num_key_value_heads", heads),
        norms=replace(LAYER_NORMS, names=("input_layernorm",)),
        rotary=True,
        parallel_residual=True,
        closes=not fields.drops("resid_pdrop"),
    )
    if fields.flag("qk_layernorm"):
        shape = replace(shape, query_key_norm=(2 * shape.head_dim, 2 * shape.head_dim))  # scale and bias of one head
    layers = blocks_of([shape] * fields.layers())
    return language_model(
        fields, layers, hidden=hidden, tied_default=False, final_norm=replace(FINAL, names=("final_layernorm",)), head_bias=True
    )


def opt(fields: Fields) -> Architecture:
    """OPT: learned positions (two more than the config says), tied head, projections where embeddings are narrower."""
    hidden = fields.integer("hidden_size")
    bias = fields.flag("enable_bias", True)
    affine = fields.flag("layer_norm_elementwise_affine", True)
    norms = Norms(names=("self_attn_layer_norm", "final_layer_norm"), kind="layer", scale=affine, bias=affine)
    names = Names(o="out_proj", up="fc1", down="fc2")
    shape = _shape(fields, hidden, fields.integer("num_attention_heads"), intermediate=fields.integer("ffn_dim"), bias=bias, names=names)
    before = fields.flag("do_layer_norm_before", True)
    shape = replace(shape, norms=norms, closes=before and not fields.drops("dropout"), pre_norm=before)
    layers = blocks_of([shape] * fields.layers())
    width = fields.integer("word_embed_proj_dim", hidden)
    outside: tuple[Matrix, ...] = ()
    if width != hidden:
        outside = (
            Matrix(name="project_in", inputs=width, outputs=hidden, part="other", reads="block"),
            Matrix(name="project_out", inputs=hidden, outputs=width, part="other", reads="final"),
        )
    final = before and not fields.flag("_remove_final_layer_norm")
    positions = fields.integer("max_position_embeddings")
    return language_model(
        fields,
        layers,
        hidden=hidden,
        embedding_size=width,
        embeddings=(Vector(name="embed_positions", size=(positions + 2) * hidden, part="embeddings"),),
        outside=outside,
        final_norm=replace(norms, names=("final_layer_norm",) if final else ()),
    )


def bloom(fields: Fields) -> Architecture:
    """BLOOM: ALiBi, a norm on the embeddings, tied head."""
    hidden = fields.integer("hidden_size")
    names = Names(qkv="query_key_value", o="self_attention.dense", up="dense_h_to_4h", down="dense_4h_to_h")
    shape = _shape(fields, hidden, fields.integer("n_head"), intermediate=4 * hidden, names=names, activation="bloom_gelu")
    shape = replace(
        shape,
        norms=replace(LAYER_NORMS, names=("input_layernorm", "post_attention_layernorm")),
        closes=not fields.drops("hidden_dropout"),
    )
    layers = blocks_of([shape] * fields.layers("n_layer"))
    embedding_norm = Vector(name="word_embeddings_layernorm", size=2 * hidden, part="norms")
    return language_model(fields, layers, hidden=hidden, outside_vectors=(embedding_norm,), final_norm=FINAL, max_positions="seq_length")


def falcon(fields: Fields) -> Architecture:
    """Falcon 1 and 2: one key and value head (7B) or groups (40B, 180B)."""
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    bias = fields.flag("bias")
    new = fields.flag("new_decoder_architecture")
    parallel = fields.flag("parallel_attn", True) or new
    norms = 2 if new else 1
    if fields.has("num_ln_in_parallel_attn"):
        norms = fields.integer("num_ln_in_parallel_attn")
    if not parallel:
        norms = 2
    names = Names(qkv="query_key_value", o="self_attention.dense", up="dense_h_to_4h", down="dense_4h_to_h")
    shape = _shape(fields, hidden, heads, intermediate=fields.integer("ffn_hidden_size", 4 * hidden), bias=bias, names=names)
    shared = 1 if fields.flag("multi_query", True) else heads
    groups = fields.integer("num_kv_heads", heads) if new else shared
    shape = replace(
        shape,
        key_value_heads=groups,
        norms=replace(LAYER_NORMS, names=("ln_attn", "ln_mlp")[:norms] if new else ("input_layernorm", "post_attention_layernorm")[:norms]),
        rotary=not fields.flag("alibi"),
        parallel_residual=parallel,
        closes=not fields.drops("hidden_dropout"),
    )
    layers = blocks_of([shape] * fields.layers())
    return language_model(fields, layers, hidden=hidden, final_norm=FINAL)


def mpt(fields: Fields) -> Architecture:
    """MPT, as llm-foundry builds it: no biases unless ``no_bias`` is false, learned positions unless ALiBi."""
    hidden = fields.integer("d_model")
    heads = fields.integer("n_heads")
    attention = fields.nested("attn_config", {"alibi": True, "qk_ln": False})
    bias = not fields.flag("no_bias", True)
    kind = attention.text("attn_type", "multihead_attention")
    groups = 1 if kind == "multiquery_attention" else attention.integer("kv_n_heads", heads)
    alibi = attention.flag("alibi")
    feed_forward = fields.nested("ffn_config")
    ratio = fields.number("expansion_ratio", 4)
    names = Names(qkv="Wqkv", o="out_proj", up="up_proj", down="down_proj")
    intermediate = feed_forward.integer("ffn_hidden_size", int(ratio * hidden))
    shape = _shape(fields, hidden, heads, intermediate=intermediate, bias=bias, names=names)
    norms = Norms(names=("norm_1", "norm_2"), kind="layer", bias=bias)
    shape = replace(
        shape,
        key_value_heads=groups,
        activation="gelu",
        norms=norms,
        query_key_norm=_mpt_norms(hidden, groups * shape.head_dim, bias) if attention.flag("qk_ln") else None,
        closes=not fields.drops("resid_pdrop"),
    )
    layers = blocks_of([shape] * fields.layers("n_layers"))
    learned = fields.flag("learned_pos_emb", True) and not alibi and not attention.flag("rope")
    return language_model(
        fields,
        layers,
        hidden=hidden,
        positions=fields.integer("max_seq_len") if learned else 0,
        final_norm=replace(norms, names=("norm_f",)),
        max_positions="max_seq_len",
    )


def _mpt_norms(queries: int, keys: int, bias: bool) -> tuple[int, int]:
    return queries * (1 + bias), keys * (1 + bias)


READERS: dict[str, Callable[[Fields], Architecture]] = {
    "gpt2": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "gpt_neo": gpt_neo,
    "gptj": gptj,
    "codegen": codegen,
    "gpt_neox": gpt_neox,
    "phi": phi,
    "opt": opt,
    "bloom": bloom,
    "falcon": falcon,
    "mpt": mpt,
}
