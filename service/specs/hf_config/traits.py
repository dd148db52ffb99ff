"""What a family's modules do differently from their kind, as fields of its layers: the core knows traits, never names.

One line a trait and the model types whose modeling files (transformers 5.24) show it. Types that are another type under a different
name get the traits of the type whose reader serves them.
"""

from __future__ import annotations

from dataclasses import replace

from service.estimation.architecture import Architecture, Layer

_T5 = frozenset({"t5", "mt5", "umt5"})

SCALE_PLUS_ONE = frozenset({"gemma", "gemma2", "gemma3_text"})  # norms multiply by 1 + weight, in 32 bits
TWO_COPIES = _T5  # norms keep their input and its 32-bit copy
SHARED_POSITION_BIAS = frozenset({"t5", "mt5"})  # the first block looks the position bias up, for all
OWN_POSITION_BIAS = frozenset({"umt5"})  # every block does
# Scores are softmaxed in their own width; elsewhere in 32 bits, and cast back.
SOFTMAX_IN_OWN_WIDTH = _T5 | {"gpt2", "bert", "roberta", "xlm-roberta", "camembert"}
PRODUCT_CAST = _T5  # what the down projection reads is cast to its weights' width
ROUTER_IN_SINGLE = frozenset({"deepseek_v2", "deepseek_v3"})  # the router reads a 32-bit copy of the hidden state
# Routers that leave the weights of the chosen experts in 32 bits (their last line), so that the experts' weighted outputs are too.
ROUTING_IN_SINGLE = frozenset({"mixtral", "deepseek_v2", "deepseek_v3", "glm4_moe", "hunyuan_v1_dense"})
LOSS_IN_OWN_WIDTH = _T5  # cross entropy reads the logits as they are; elsewhere a 32-bit copy


def with_traits(model: Architecture, model_type: str) -> Architecture:
    """The model with its family's traits on it; the very same model where it has none."""

    def traits(layer: Layer) -> Layer:
        norm, attention, cross, mlp = layer.norm, layer.attention, layer.cross_attention, layer.mlp
        if norm == "rms" and model_type in SCALE_PLUS_ONE:
            norm = "rms_scale_plus_one"
        elif norm == "rms" and model_type in TWO_COPIES:
            norm = "rms_two_copies"
        if model_type in SHARED_POSITION_BIAS:
            attention = replace(attention, position_bias="shared")
        elif model_type in OWN_POSITION_BIAS:
            attention = replace(attention, position_bias="own")
        if model_type in SOFTMAX_IN_OWN_WIDTH:
            attention = replace(attention, softmax_in_single=False)
            cross = None if cross is None else replace(cross, softmax_in_single=False)
        if model_type in PRODUCT_CAST:
            mlp = replace(mlp, product_cast=True)
        if model_type in ROUTER_IN_SINGLE:
            mlp = replace(mlp, router_in_single=True)
        if model_type in ROUTING_IN_SINGLE:
            mlp = replace(mlp, routing_in_single=True)
        if (norm, attention, cross, mlp) == (layer.norm, layer.attention, layer.cross_attention, layer.mlp):
            return layer
        return replace(layer, norm=norm, attention=attention, cross_attention=cross, mlp=mlp)

    made = {id(layer): traits(layer) for layer in model.layers}
    layers = tuple(made[id(layer)] for layer in model.layers)
    if all(new is old for new, old in zip(layers, model.layers, strict=True)) and model_type not in LOSS_IN_OWN_WIDTH:
        return model
    return replace(model, layers=layers, loss_in_single=model_type not in LOSS_IN_OWN_WIDTH)
