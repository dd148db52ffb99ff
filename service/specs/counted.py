"""An architecture from a parameter count, and as much of a shape as the caller knows."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from service.estimation.architecture import Architecture, Matrix, Vector

from .hf_config.assemble import blocks_of
from .hf_config.blocks import Norms, Shape

# Llama 2's; larger in later models (Llama 3: 128,256). Enters the logits and the head's share of the parameters.
ASSUMED_VOCABULARY = 32_000
TOLERANCE = 0.05  # a rounded count, biases and norms that are not described
ASSUMED_HEAD_DIM = 128  # of nearly all published decoders from 7 B on


class Contradiction(ValueError):
    """A shape that no model has, or a count that no model of the given shape has; ``field`` is the one at fault."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


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
        if head_dim is None and hidden % heads:
            raise Contradiction("hidden_size", "must be a multiple of num_attention_heads where head_dim is not given")
        width = head_dim or hidden // heads
    groups = num_key_value_heads or heads
    if heads % groups:
        words = "" if num_attention_heads is not None else f", which is assumed to be {heads}: give it"
        raise Contradiction("num_key_value_heads", "must divide num_attention_heads" + words)
    if num_key_value_heads is None:
        notes.append("as many key and value heads as query heads")
    vocabulary = vocab_size or ASSUMED_VOCABULARY
    if vocab_size is None:
        notes.append(f"a vocabulary of {vocabulary}")
    tied = bool(tie_word_embeddings)
    if tie_word_embeddings is None:
        notes.append("an untied head")
    shape = Shape(hidden=hidden, heads=heads, key_value_heads=groups, head_dim=width, intermediate=1)
    target = active_parameter_count or parameter_count
    tables = vocabulary * hidden * (1 if tied else 2)
    if min(target, parameter_count) <= tables:
        words = f"vocab_size {vocabulary}" + (", which is assumed: give it" if vocab_size is None else "")
        raise Contradiction("parameter_count", f"fewer parameters than the embedding and the head alone hold: {tables} with {words}")
    if intermediate_size is None:
        intermediate = _solve(target, shape, layers, vocabulary, tied)
        shape = replace(shape, intermediate=intermediate)
        notes.append(f"a gated feed-forward part of {intermediate}, so that the blocks add up to the count given")
    else:
        # Of the two common forms the one that comes nearer to the count.
        forms = [replace(shape, intermediate=intermediate_size, gated=gated) for gated in (True, False)]
        shape = min(forms, key=lambda form: abs(_outside(form, vocabulary, tied) + layers * _block(form) - target))
        notes.append(f"a {'gated' if shape.gated else 'plain'} feed-forward part")
    blocks = blocks_of([shape] * layers)
    if active_parameter_count is not None and active_parameter_count < parameter_count:
        idle = parameter_count - _outside(shape, vocabulary, tied) - layers * _block(shape)
        width = round(idle / (layers * hidden))
        if width > 0:
            # Experts that a token does not meet: they are held, trained and saved, and cost no FLOPs.
            held = Matrix(name="inactive_experts", inputs=hidden, outputs=width, part="experts", active_copies=0, lora=False)
            blocks = (replace(blocks[0], matrices=(*blocks[0].matrices, held)),) * layers
        notes.append("the blocks stand for what one token meets; inactive experts are held beside them")
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


def _block(shape: Shape) -> int:
    """Parameters of one block."""
    attention = 2 * shape.hidden * shape.head_dim * (shape.heads + shape.key_value_heads)
    return attention + (3 if shape.gated else 2) * shape.hidden * shape.intermediate + 2 * shape.hidden


def _outside(shape: Shape, vocabulary: int, tied: bool) -> int:
    """Parameters of the tables and the last norm."""
    return vocabulary * shape.hidden * (1 if tied else 2) + shape.hidden


def contradiction(architecture: Architecture) -> str | None:
    """What is wrong between a declared count and a given shape that add up to something else; None within a twentieth."""
    declared = architecture.declared_total
    if declared is None or not architecture.shape_known:
        return None
    held = architecture.head.parameters if architecture.head is not None and not architecture.head_tied else 0
    held += sum(vector.size for vector in (*architecture.embeddings, *architecture.outside_vectors))
    for block, count in architecture.kinds():
        held += count * sum(matrix.parameters for matrix in block.matrices) + count * sum(vector.size for vector in block.vectors)
    if abs(held / declared - 1) <= TOLERANCE:
        return None
    return (
        f"the fields beside it describe a model of {held:.4g} parameters, not {declared:.4g}: memory and executed FLOPs follow the shape, "
        "6ND and the sizes of checkpoints the count"
    )


def _solve(target: int, shape: Shape, layers: int, vocabulary: int, tied: bool) -> int:
    """The feed-forward width with which the model has ``target`` parameters; four times the hidden size where none has."""
    hidden = shape.hidden
    tables = vocabulary * hidden * (1 if tied else 2)
    attention = 2 * hidden * shape.head_dim * (shape.heads + shape.key_value_heads)
    rest = target - tables - hidden - layers * (attention + 2 * hidden)
    return max(1, round(rest / (3 * hidden * layers))) if rest > 0 else 4 * hidden
