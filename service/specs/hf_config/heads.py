"""Heads that are no language models: what ``architectures`` names instead of ``...ForCausalLM`` or ``...ForMaskedLM``.

A classifier, a tagger, a reward model or an embedding model has no logits over the vocabulary, which are most of what a small model holds.
Sources: transformers' modeling files (``GenericForSequenceClassification`` and its kin in ``modeling_layers.py``; BERT and RoBERTa).
"""

from __future__ import annotations

from dataclasses import replace

from service.estimation.architecture import Architecture, Matrix

from .fields import Fields

_LANGUAGE_MODELS = ("LMHeadModel", "DoubleHeadsModel", "ChatGLMModel")  # classes that end as bare models do, and make logits
# By the end of the class's name: whether the head reads every token, and its outputs (None: the config's labels; 0: no head at all).
_KINDS: dict[str, tuple[bool, int | None]] = {
    "ForSequenceClassification": (False, None),
    "ForRewardModel": (False, 1),
    "ForMultipleChoice": (False, 1),
    "ForTokenClassification": (True, None),
    "ForQuestionAnswering": (True, 2),
    "Model": (True, 0),
}


def with_head(model: Architecture, fields: Fields) -> Architecture:
    """The model with the head that its config names; the very same model where that is a language model's, or none is named."""
    named = fields.config.get("architectures")
    name = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    found = None if name.endswith(_LANGUAGE_MODELS) else next((kind for end, kind in _KINDS.items() if name.endswith(end)), None)
    if found is None or model.image_positions is not None or model.encoder_decoder or model.head is None:
        return model
    per_token, outputs = found
    fields.assume(f"no language-model head: architectures names {name}")
    labels = fields.labels() if outputs is None else outputs
    encoder = any(layer.kind == "encoder" for layer in model.layers)
    # A decoder scores every token and takes the last one's; an encoder scores one value a sequence, behind a dense layer of its own.
    pooled = encoder and not per_token
    outside = tuple(m for m in model.outside if not m.name.startswith("transform"))
    if pooled or (encoder and outputs == 0):
        size = model.hidden
        pooler = Matrix(name="pooler.dense", inputs=size, outputs=size, part="other", bias=True, per_token=False, reads="final")
        outside = (*outside, pooler)
    head = None
    if labels:
        bias = encoder or per_token
        head = Matrix(
            name="classifier" if encoder else "score",
            inputs=model.hidden,
            outputs=labels,
            part="lm_head",
            bias=bias,
            per_token=not pooled,
            reads="final",
            lora=False,
        )
    return replace(
        model,
        outside=outside,
        outside_vectors=tuple(v for v in model.outside_vectors if not v.name.startswith("transform")),
        head=head,
        head_tied=False,
        assumptions=tuple(text for text in fields.assumptions() if "masked-language-model head" not in text),
    )
