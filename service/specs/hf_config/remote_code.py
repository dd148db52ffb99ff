"""Families whose modelling code lies beside their weights on the hub, not in transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from service.estimation.architecture import Architecture

from .assemble import blocks_of, language_model
from .blocks import Names, Norms, Shape
from .fields import Fields
from .llama_like import base, uniform


def internlm(fields: Fields) -> Architecture:
    """InternLM 1: biases on the attention's projections."""
    return uniform(fields, base(fields, attention_bias=fields.flag("bias", True)), tied_default=False)


def internlm2(fields: Fields) -> Architecture:
    """InternLM 2 and 2.5: fused q, k and v."""
    bias = fields.flag("bias")
    names = Names(qkv="wqkv", o="wo", gate="w1", up="w3", down="w2")
    shape = replace(base(fields, attention_bias=bias), names=names, norms=Norms(names=("attention_norm", "ffn_norm")))
    return uniform(fields, shape, tied_default=False)


def baichuan(fields: Fields) -> Architecture:
    """Baichuan 1 and 2: fused q, k and v without biases."""
    return uniform(fields, replace(base(fields), names=Names(qkv="W_pack")), tied_default=False)


def qwen(fields: Fields) -> Architecture:
    """Qwen 1: the config's intermediate_size is gate and up together."""
    both = fields.integer("intermediate_size")
    names = Names(qkv="c_attn", o="c_proj", gate="w2", up="w1", down="mlp.c_proj")
    shape = replace(base(fields), names=names, intermediate=both // 2, norms=Norms(names=("ln_1", "ln_2")))
    shape = replace(shape, qkv_bias=True, output_bias=not fields.flag("no_bias", True), mlp_bias=not fields.flag("no_bias", True))
    return uniform(fields, shape, tied_default=False)


def chatglm(fields: Fields) -> Architecture:
    """ChatGLM 2, 3 and GLM-4 (remote code)."""
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    groups = fields.integer("multi_query_group_num", heads) if fields.flag("multi_query_attention") else heads
    bias = fields.flag("add_bias_linear")
    shape = Shape(
        hidden=hidden,
        heads=heads,
        key_value_heads=groups,
        head_dim=fields.integer("kv_channels", hidden // heads),
        intermediate=fields.integer("ffn_hidden_size"),
        names=Names(qkv="query_key_value", o="dense", gate_up="dense_h_to_4h", down="dense_4h_to_h"),
        norms=Norms(kind="rms" if fields.flag("rmsnorm", True) else "layer", bias=not fields.flag("rmsnorm", True)),
        qkv_bias=bias or fields.flag("add_qkv_bias"),
        output_bias=bias,
        mlp_bias=bias,
    )
    layers = blocks_of([shape] * fields.layers("num_layers"))
    final = replace(shape.norms, names=("final_layernorm",) if fields.flag("post_layer_norm", True) else ())
    vocabulary = fields.integer("padded_vocab_size", fields.optional_integer("vocab_size"))
    return language_model(
        fields, layers, hidden=hidden, tied_default=False, final_norm=final, max_positions="seq_length", vocabulary=vocabulary
    )


READERS: dict[str, Callable[[Fields], Architecture]] = {
    "internlm": internlm,
    "internlm2": internlm2,
    "baichuan": baichuan,
    "qwen": qwen,
    "chatglm": chatglm,
}
