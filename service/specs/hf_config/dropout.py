"""Dropout that a config asks for itself: which of its values are dropped, so that their masks are kept for the backward pass.

From the modeling files of transformers 5.24: where each family puts dropout, by the config's own field. A field that the config
leaves out is taken as switched off, whatever the class's default is: that is how models are pretrained and tuned today.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.estimation.architecture import Architecture, Dropout, Layer

from .fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Config fields, and how many values of the hidden width each of them drops."""

    hidden: tuple[tuple[str, int], ...] = ()  # in a block
    scores: str = "attention_dropout"
    embeddings: tuple[tuple[str, int], ...] = ()
    inner: str | None = None  # what leaves the activation of the MLP


_GPT = Places(hidden=(("resid_pdrop", 2),), scores="attn_pdrop", embeddings=(("embd_pdrop", 1),))
_BERT = Places(hidden=(("hidden_dropout_prob", 2),), scores="attention_probs_dropout_prob", embeddings=(("hidden_dropout_prob", 1),))
_T5 = Places(hidden=(("dropout_rate", 1),), scores="dropout_rate", embeddings=(("dropout_rate", 2),), inner="dropout_rate")
_PLACES = {
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gptj": _GPT,
    "codegen": _GPT,
    "gpt_neo": Places(hidden=(("resid_dropout", 2),), embeddings=(("embed_dropout", 1),)),
    "gpt_neox": Places(hidden=(("hidden_dropout", 2),), embeddings=(("hidden_dropout", 1),)),
    "phi": Places(hidden=(("resid_pdrop", 2),), embeddings=(("embd_pdrop", 1),)),
    "phi3": Places(hidden=(("resid_pdrop", 2),)),
    "opt": Places(hidden=(("dropout", 2),)),
    "bloom": Places(hidden=(("hidden_dropout", 2),)),
    "falcon": Places(hidden=(("hidden_dropout", 2),)),
    "stablelm": Places(hidden=(("hidden_dropout", 1),)),
    "starcoder2": Places(hidden=(("residual_dropout", 2),), embeddings=(("embedding_dropout", 1),)),
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "vit": _BERT,
    "deit": _BERT,
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
    "mpt": Places(hidden=(("resid_pdrop", 2),), scores="attn_pdrop", embeddings=(("emb_pdrop", 1),)),
}
_OTHERS = Places()  # Llama and its kin drop scores at most
_PARALLEL_ONCE = frozenset({"falcon"})  # parallel branches are added up before they are dropped, once


def with_dropout(model: Architecture, fields: Fields) -> Architecture:
    """The model with the values that its config drops; the very same model where it drops none."""
    places = _PLACES.get(fields.model_type, _OTHERS)
    inside = fields.nested("attn_config") if fields.has("attn_config") else fields
    hidden = sum(count for name, count in places.hidden if fields.drops(name))
    scores, inner = inside.drops(places.scores), places.inner is not None and fields.drops(places.inner)
    outside = sum(count for name, count in places.embeddings if fields.drops(name))
    if not (hidden or scores or inner or outside):
        return model

    def dropped(layer: Layer) -> Layer:
        count = hidden
        if places is _T5 and hidden:
            count = layer.norms  # behind each of its parts
        elif layer.parallel_residual and fields.model_type in _PARALLEL_ONCE:
            count = min(hidden, 1)
        return replace(layer, dropout=Dropout(hidden=count, scores=scores, inner=inner))

    # Equal blocks stay one object: sums over a model run over its kinds.
    made = {id(layer): dropped(layer) for layer in model.layers}
    return replace(model, layers=tuple(made[id(layer)] for layer in model.layers), embedding_dropouts=outside)
