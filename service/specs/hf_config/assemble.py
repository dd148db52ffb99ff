"""From blocks to a whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from service.estimation.architecture import Architecture, Layer, Matrix, Vector

from .blocks import Norms, Shape, layer
from .fields import Fields


def blocks_of(shapes: Iterable[Shape], build: Callable[[Shape], Layer] = layer) -> tuple[Layer, ...]:
    """Blocks in order; equal shapes become the same object."""
    built: dict[Shape, Layer] = {}
    return tuple(built[shape] if shape in built else built.setdefault(shape, build(shape)) for shape in shapes)


def language_model(
    fields: Fields,
    layers: tuple[Layer, ...],
    *,
    hidden: int,
    tied_default: bool = True,
    positions: int = 0,
    embedding_size: int | None = None,
    embeddings: tuple[Vector, ...] = (),
    final_norm: Norms | None = None,
    outside: tuple[Matrix, ...] = (),
    outside_vectors: tuple[Vector, ...] = (),
    head_bias: bool = False,
    logit_softcap: bool = False,
    max_positions: str | None = "max_position_embeddings",
    vocabulary: int | None = None,
    multi_token_prediction_layers: int = 0,
) -> Architecture:
    """A decoder with token embeddings and an output head."""
    vocabulary = fields.integer("vocab_size") if vocabulary is None else vocabulary
    width = embedding_size or hidden
    tables = [Vector(name="embed_tokens", size=vocabulary * width, part="embeddings")]
    if positions:
        tables.append(Vector(name="embed_positions", size=positions * width, part="embeddings"))
    norm = Norms(names=("norm",)) if final_norm is None else final_norm
    return Architecture(
        family=fields.model_type,
        hidden=hidden,
        vocabulary=vocabulary,
        layers=layers,
        embeddings=(*tables, *embeddings),
        outside=outside,
        outside_vectors=(*outside_vectors, *norm.vectors(hidden)),
        head=Matrix(name="lm_head", inputs=width, outputs=vocabulary, part="lm_head", bias=head_bias, reads="final", lora=False),
        head_tied=fields.flag("tie_word_embeddings", tied_default),
        logit_softcap=logit_softcap,
        max_positions=fields.optional_integer(max_positions) if max_positions else None,
        multi_token_prediction_layers=multi_token_prediction_layers,
        assumptions=fields.assumptions(),
    )


def layer_windows(fields: Fields, count: int, window: int | None, sliding: Callable[[int], bool]) -> list[int | None]:
    """The window of each layer: ``layer_types`` where the config has it, else the family's own pattern."""
    types = fields.items("layer_types") if fields.has("layer_types") else None
    if types is not None:
        if len(types) < count:
            raise fields.error("layer_types", f"has {len(types)} entries for {count} layers")
        kinds = ("full_attention", "sliding_attention", "chunked_attention")
        for kind in types[:count]:
            if kind not in kinds:
                raise fields.error("layer_types", f"holds a kind of attention that is not known here (known: {', '.join(kinds)})")
        if window is None and any(kind != "full_attention" for kind in types[:count]):
            raise fields.error("layer_types", "has sliding layers but the config gives no window")
        return [None if kind == "full_attention" else window for kind in types[:count]]
    return [window if window is not None and sliding(index) else None for index in range(count)]
