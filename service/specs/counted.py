"""An architecture from a parameter count, and as much of a shape as the caller knows."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from service.estimation.architecture import Architecture, Matrix, Vector

from .hf_config.assemble import blocks_of
from .hf_config.blocks import Norms, Shape

# Llama 2's; larger in later models (Llama 3: 128,256). Enters the logits and the head's share of the parameters.
ASSUMED_VOCABULARY = 32_000
ASSUMED_HEAD_DIM = 128  # of nearly all published decoders from 7 B on


@lru_cache(maxsize=512)
def architecture(
    *,
    parameter_count: int,
    active_parameter_count: int | None = None,
    num_hidden_layers: int | None = None,
    hidden_size: int | None = None,
    num_attention_heads: int | None = None,
    num_key_value_heads: int | None = None,
    head_dim: int | None = None,
    intermediate_size: int | None = None,
    vocab_size: int | None = None,
    tie_word_embeddings: bool | None = None,
) -> Architecture:
    """A model of that many parameters; with layers and hidden size also its blocks, Llama-like, so that the declared count holds.

    The declared counts are what ``parameters.total`` and ``active`` say whatever the blocks add up to.
    """
    bare = Architecture(
        family="counted",
        hidden=hidden_size or 0,
        vocabulary=vocab_size or 0,
        declared_total=parameter_count,
        declared_active=active_parameter_count,
    )
    if num_hidden_layers is None or hidden_size is None:
        return replace(
            bare, assumptions=("only a parameter count is known: what depends on layers, hidden size or vocabulary cannot be computed",)
        )
    notes: list[str] = []
    hidden, layers = hidden_size, num_hidden_layers
    if num_attention_heads is None:
        width = head_dim or (ASSUMED_HEAD_DIM if hidden % ASSUMED_HEAD_DIM == 0 else hidden)
        heads = max(1, hidden // width)
        notes.append(f"{heads} attention heads of {width}")
    else:
        heads = num_attention_heads
        width = head_dim or max(1, hidden // heads)
    groups = num_key_value_heads or heads
    if num_key_value_heads is None:
        notes.append("as many key and value heads as query heads")
    vocabulary = vocab_size or ASSUMED_VOCABULARY
    if vocab_size is None:
        notes.append(f"a vocabulary of {vocabulary}")
    tied = bool(tie_word_embeddings)
    if tie_word_embeddings is None:
        notes.append("an untied head")
    shape = Shape(hidden=hidden, heads=heads, key_value_heads=groups, head_dim=width, intermediate=1)
    if intermediate_size is None:
        target = active_parameter_count or parameter_count
        intermediate = _solve(target, shape, layers, vocabulary, tied)
        notes.append(f"a gated feed-forward part of {intermediate}, so that the blocks add up to the count given")
    else:
        intermediate = intermediate_size
        notes.append("a gated feed-forward part")
    if active_parameter_count is not None and active_parameter_count < parameter_count:
        notes.append("the blocks stand for what one token meets; inactive experts appear only in the count of parameters")
    blocks = blocks_of([replace(shape, intermediate=intermediate)] * layers)
    return replace(
        bare,
        vocabulary=vocabulary,
        layers=blocks,
        embeddings=(Vector(name="embed_tokens", size=vocabulary * hidden, part="embeddings"),),
        outside_vectors=Norms(names=("norm",)).vectors(hidden),
        head=Matrix(name="lm_head", inputs=hidden, outputs=vocabulary, part="lm_head", reads="final", lora=False),
        head_tied=tied,
        assumptions=("shape completed as a Llama-like decoder: " + ", ".join(notes),),
    )


def _solve(target: int, shape: Shape, layers: int, vocabulary: int, tied: bool) -> int:
    """The feed-forward width with which the model has ``target`` parameters; four times the hidden size where none has."""
    hidden = shape.hidden
    tables = vocabulary * hidden * (1 if tied else 2)
    attention = 2 * hidden * shape.head_dim * (shape.heads + shape.key_value_heads)
    rest = target - tables - hidden - layers * (attention + 2 * hidden)
    return max(1, round(rest / (3 * hidden * layers))) if rest > 0 else 4 * hidden
