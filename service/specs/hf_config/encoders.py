"""Encoders with a masked-language head, encoder-decoders, and vision transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from service.estimation.architecture import Architecture, Layer, Matrix, Vector

from .assemble import blocks_of, language_model
from .blocks import Names, Norms, Shape, attention_matrices, attention_of, layer
from .fields import Fields
from .llama_like import activation

LAYER_NORM = Norms(names=("LayerNorm",), kind="layer", bias=True)


def bert(fields: Fields) -> Architecture:
    """BERT and RoBERTa with the masked-language head."""
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    if hidden % heads:
        raise fields.error("hidden_size", "must be a multiple of num_attention_heads")
    shape = Shape(
        hidden=hidden,
        heads=heads,
        key_value_heads=heads,
        head_dim=hidden // heads,
        intermediate=fields.integer("intermediate_size"),
        names=Names(q="query", k="key", v="value", o="attention.output.dense", up="intermediate.dense", down="output.dense"),
        norms=replace(LAYER_NORM, names=("attention.output.LayerNorm", "output.LayerNorm")),
        gated=False,
        activation=activation(fields),
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        causal=False,
        rotary=False,
        closes=False,
        pre_norm=False,
        kind="encoder",
    )
    if fields.flag("is_decoder") or fields.flag("add_cross_attention"):
        raise fields.error("is_decoder", "an encoder used as a decoder is not covered")
    layers = blocks_of([shape] * fields.layers())
    types = fields.integer("type_vocab_size", 0, least=0)
    fields.assume("counted with the masked-language-model head (a dense layer, a norm and a decoder with a bias)")
    transform = Matrix(name="transform.dense", inputs=hidden, outputs=hidden, part="other", bias=True, reads="final")
    return language_model(
        fields,
        layers,
        hidden=hidden,
        positions=fields.integer("max_position_embeddings"),
        embeddings=(Vector(name="token_type_embeddings", size=types * hidden, part="embeddings"),),
        outside=(transform,),
        outside_vectors=(Vector(name="embeddings.LayerNorm", size=2 * hidden, part="norms"),),
        final_norm=replace(LAYER_NORM, names=("transform.LayerNorm",)),
        head_bias=True,
    )


def t5(fields: Fields) -> Architecture:
    """T5, FLAN-T5 (v1.1, gated), mT5 and UMT5."""
    hidden = fields.integer("d_model")
    heads = fields.integer("num_heads")
    head_dim = fields.integer("d_kv")
    intermediate = fields.integer("d_ff")
    form = fields.text("feed_forward_proj", "relu")
    gated = form.startswith("gated-")
    function = form.removeprefix("gated-")
    function = "gelu_new" if gated and function == "gelu" else function
    names = Names(q="q", k="k", v="v", o="o", gate="wi_0", up="wi_1" if gated else "wi", down="wo")
    buckets = fields.integer("relative_attention_num_buckets")
    encoder_count = fields.layers("num_layers")
    decoder_count = fields.layers("num_decoder_layers", encoder_count)
    every = fields.model_type == "umt5"  # each layer has its own table of relative positions

    def block(*, decoder: bool, first: bool) -> Layer:
        shape = Shape(
            hidden=hidden,
            heads=heads,
            key_value_heads=heads,
            head_dim=head_dim,
            intermediate=intermediate,
            names=names,
            norms=Norms(
                names=("self_attention_norm", "cross_attention_norm", "mlp_norm") if decoder else ("self_attention_norm", "mlp_norm")
            ),
            gated=gated,
            activation=function,
            causal=decoder,
            rotary=False,
            closes=not fields.drops("dropout_rate"),
            kind="decoder" if decoder else "encoder",
        )
        built = layer(shape)
        vectors = built.vectors
        if first or every:
            vectors = (Vector(name="relative_attention_bias", size=buckets * heads, part="embeddings"), *vectors)
        if not decoder:
            return replace(built, vectors=vectors)
        return replace(
            built,
            vectors=vectors,
            matrices=(*built.matrices[:4], *_cross(shape), *built.matrices[4:]),
            cross_attention=replace(attention_of(shape), cross=True, causal=False),
        )

    def _cross(shape: Shape) -> tuple[Matrix, ...]:
        query, key, value, output = attention_matrices(shape, reads="cross", output_reads="cross_attended")
        inner = [replace(matrix, name=f"EncDecAttention.{matrix.name}") for matrix in (query, key, value, output)]
        return (inner[0], replace(inner[1], reads="encoder"), replace(inner[2], reads="encoder"), inner[3])

    encoder = (block(decoder=False, first=True), *[block(decoder=False, first=False)] * (encoder_count - 1))
    decoder = (block(decoder=True, first=True), *[block(decoder=True, first=False)] * (decoder_count - 1))
    model = language_model(
        fields,
        (*encoder, *decoder),
        hidden=hidden,
        final_norm=Norms(names=("encoder.final_layer_norm", "decoder.final_layer_norm")),
        max_positions=None,
    )
    return replace(model, encoder_decoder=True)


def vit(fields: Fields) -> Architecture:
    """ViT and DeiT with a classification head; an image becomes its patches and one or two class tokens."""
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    if hidden % heads:
        raise fields.error("hidden_size", "must be a multiple of num_attention_heads")
    bias = fields.flag("qkv_bias", True)
    shape = Shape(
        hidden=hidden,
        heads=heads,
        key_value_heads=heads,
        head_dim=hidden // heads,
        intermediate=fields.integer("intermediate_size"),
        names=Names(up="fc1", down="fc2"),
        norms=Norms(names=("layernorm_before", "layernorm_after"), kind="layer", bias=True),
        gated=False,
        activation=activation(fields),
        qkv_bias=bias,
        output_bias=True,
        mlp_bias=True,
        causal=False,
        rotary=False,
        closes=not fields.drops("hidden_dropout_prob"),
        kind="vision",
    )
    image, patch, channels = (fields.integer(name) for name in ("image_size", "patch_size", "num_channels"))
    patches = (image // patch) ** 2
    tokens = 2 if fields.model_type == "deit" else 1
    labels = fields.labels()
    projection = Matrix(
        name="patch_embeddings.projection",
        inputs=patch * patch * channels,
        outputs=hidden,
        part="embeddings",
        bias=True,
        reads="pixels",
        lora=False,
    )
    return Architecture(
        family=fields.model_type,
        hidden=hidden,
        vocabulary=labels,
        layers=blocks_of([shape] * fields.layers()),
        outside=(projection,),
        outside_vectors=(
            Vector(name="cls_token", size=tokens * hidden, part="embeddings"),
            Vector(name="position_embeddings", size=(patches + tokens) * hidden, part="embeddings"),
            Vector(name="layernorm", size=2 * hidden, part="norms"),
        ),
        head=Matrix(name="classifier", inputs=hidden, outputs=labels, part="lm_head", bias=True, per_token=False, reads="final"),
        max_positions=patches + tokens,
        image_positions=patches + tokens,
        assumptions=fields.assumptions(),
    )


READERS: dict[str, Callable[[Fields], Architecture]] = {
    "bert": bert,
    "roberta": bert,
    "xlm-roberta": bert,
    "camembert": bert,
    "t5": t5,
    "mt5": t5,
    "umt5": t5,
    "vit": vit,
    "deit": vit,
}
