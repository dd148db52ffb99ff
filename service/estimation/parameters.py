"""Parameters: all, active, trainable, by part and by layer, to the unit.

Adapters follow PEFT 0.21 on transformers 5: a rank-r pair per adapted matrix, r x (inputs + outputs) weights; where it knows
a family's expert weights it adapts them as bare parameters with r for each of the gate and up halves, r x E x (inputs +
outputs) (``ParamWrapper.update_layer``), and gives dense and shared matrices of the same names none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .architecture import Architecture, Layer, Matrix, Vector
from .by_identity import ByIdentity
from .run import Lora, Method, Run

CANONICAL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ALL_LINEAR = "all-linear"
FROZEN_PARTS = ("embeddings", "lm_head", "attention", "mlp", "norms")
_MLP_PARTS = frozenset({"mlp", "experts", "shared_experts", "router"})
_LAYERS = re.compile(r"^layers:(\d+)(?:-(\d+))?$")


class UnknownTarget(ValueError):
    """A name that no part of the model bears; ``choices`` are the names that would do."""

    def __init__(self, name: str, field: str, choices: tuple[str, ...]) -> None:
        super().__init__(f"{field}: no part of the model is called that; it has {', '.join(choices)}")
        self.name = name
        self.field = field
        self.choices = choices


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of parameters. ``total`` holds a tied head once and no adapters; with ``declared`` totals they are the caller's."""

    total: int
    active: int  # a token meets these: inactive experts left out
    trainable: int | None  # adapters and modules_to_save included; None where adapters meet a model without a shape
    embedding: int  # look-up tables
    lm_head: int
    lm_head_tied: bool
    non_embedding: int  # total without look-up tables and without an untied head
    experts: int  # all routed experts
    adapters: int | None
    per_layer: tuple[int, ...]  # distinct sizes, sorted
    layer_parameters: tuple[int, ...]  # of each layer in order
    saved_modules: int = 0  # full copies of modules_to_save, part of trainable
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Adapted:
    """One adapted matrix: what PEFT adds to it."""

    matrix: Matrix
    rank: int  # of each copy

    @property
    def parameters(self) -> int:
        """Adapter weights, both factors, all copies."""
        return self.rank * self.matrix.copies * (self.matrix.inputs + self.matrix.outputs)


@dataclass(frozen=True, slots=True)
class _Totals:
    total: int
    experts: int
    inactive: float
    embedding: int
    head: int
    layer_parameters: tuple[int, ...]


@ByIdentity
def _totals(architecture: Architecture) -> _Totals:
    """Sums over a model that no method changes."""
    experts, inactive, in_layers, tables = 0, 0.0, 0, 0
    for layer, count in architecture.kinds():
        in_layers += layer.parameters * count
        tables += count * sum(vector.size for vector in layer.vectors if vector.part == "embeddings")
        for matrix in layer.matrices:
            if matrix.part == "experts":
                experts += matrix.parameters * count
                inactive += count * matrix.parameters * (1 - matrix.active_copies / matrix.copies)
    embedding = sum(vector.size for vector in architecture.embeddings) + tables
    head = _head_parameters(architecture)
    total = (
        sum(vector.size for vector in architecture.embeddings)
        + in_layers
        + sum(matrix.parameters for matrix in architecture.outside)
        + sum(vector.size for vector in architecture.outside_vectors)
        + _untied_head(architecture)
    )
    sizes = {id(layer): layer.parameters for layer, _ in architecture.kinds()}
    return _Totals(total, experts, inactive, embedding, head, tuple(sizes[id(layer)] for layer in architecture.layers))


def _head_parameters(architecture: Architecture) -> int:
    return 0 if architecture.head is None else architecture.head.parameters


def _untied_head(architecture: Architecture) -> int:
    """What the head adds to the total: all of it, or its bias alone where the weight is the token table's."""
    head = architecture.head
    if head is None:
        return 0
    return head.parameters - head.weights if architecture.head_tied else head.parameters


# -- what is trained ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Trained:
    """Which of a model's own weights get a gradient: all but what is frozen, and none under adapters."""

    frozen_parts: frozenset[str]
    frozen_layers: frozenset[int]  # frozen as a whole
    adapters: bool

    def layer(self, index: int) -> bool:
        """Whether anything of the layer's own weights may train."""
        return not self.adapters and index not in self.frozen_layers

    def part(self, part: str) -> bool:
        """Whether weights of that part train where their layer does."""
        if self.adapters:
            return False
        return not ("mlp" in self.frozen_parts if part in _MLP_PARTS else part in self.frozen_parts)

    @property
    def embeddings(self) -> bool:
        """Whether the look-up tables train."""
        return not self.adapters and "embeddings" not in self.frozen_parts

    def head(self, tied: bool) -> bool:
        """Whether the head trains; a tied one does unless the table or the head is frozen."""
        if self.adapters or "lm_head" in self.frozen_parts:
            return False
        return not (tied and "embeddings" in self.frozen_parts)


@ByIdentity
def trained(architecture: Architecture, method: Method) -> Trained:
    """What a method trains of a model's own weights; unknown frozen parts are an error that names the choices."""
    parts: set[str] = set()
    layers: set[int] = set()
    count = len(architecture.layers)
    for name in method.frozen:
        match = _LAYERS.match(name)
        if match is not None:
            first = int(match[1])
            last = first if match[2] is None else int(match[2])
            if last < first or (count and last >= count):
                raise UnknownTarget(name, "frozen", (f"layers:0-{count - 1}",))
            layers.update(range(first, last + 1))
        elif name in FROZEN_PARTS:
            parts.add(name)
        else:
            raise UnknownTarget(name, "frozen", (*FROZEN_PARTS, "layers:0-15"))
    if "lm_head" in parts and architecture.head_tied:
        parts.add("embeddings")  # one tensor
    return Trained(frozenset(parts), frozenset(layers), method.adapters)


# -- adapters ----------------------------------------------------------------------------------------------------------
def _fits(name: str, target: str) -> bool:
    """PEFT's rule: the whole name or its end after a dot."""
    return name == target or name.endswith("." + target)


def _matches(matrix: Matrix, targets: tuple[str, ...], gated: bool) -> bool:
    if not matrix.lora:
        return False
    for target in targets:
        if _fits(matrix.name, target) or target in matrix.roles:
            return True
        if target == "gate_proj" and not gated and "up_proj" in matrix.roles:
            return True  # a feed-forward part without a gate has one matrix in its place
    return False


def _rank(matrix: Matrix, rank: int) -> int:
    """PEFT doubles the rank of a fused gate and up that it adapts as one bare parameter."""
    return rank * max(1, len(matrix.roles)) if matrix.lora_materialized and matrix.copies > 1 else rank


def adapters_of(lora: Lora | None, layer: Layer) -> tuple[Adapted, ...]:
    """The adapters of a block."""
    return () if lora is None else _adapters(layer, lora)


@ByIdentity
def _adapters(layer: Layer, lora: Lora) -> tuple[Adapted, ...]:
    if isinstance(lora.target_modules, str) and lora.target_modules == ALL_LINEAR:
        chosen = [matrix for matrix in layer.matrices if matrix.lora]
    else:
        chosen = [matrix for matrix in layer.matrices if _matches(matrix, _targets(lora), layer.mlp.gated)]
    return tuple(Adapted(matrix, _rank(matrix, lora.rank)) for matrix in chosen)


def _targets(lora: Lora) -> tuple[str, ...]:
    return (lora.target_modules,) if isinstance(lora.target_modules, str) else tuple(lora.target_modules)


@ByIdentity
def adapters_outside(architecture: Architecture, lora: Lora) -> tuple[Adapted, ...]:
    """Adapters on matrices outside the blocks: the head and the token table only where they are named."""
    everything = lora.target_modules == ALL_LINEAR
    targets = () if everything else _targets(lora)
    chosen = [matrix for matrix in architecture.outside if (matrix.lora if everything else any(_fits(matrix.name, t) for t in targets))]
    head = architecture.head
    if head is not None and (head.lora if everything else any(_fits(head.name, target) for target in targets)):
        chosen.append(head)
    for vector in architecture.embeddings:
        if not everything and any(_fits(vector.name, target) for target in targets):
            rows = architecture.vocabulary if vector.name == "embed_tokens" else vector.size // max(1, architecture.hidden)
            chosen.append(Matrix(name=vector.name, inputs=rows, outputs=vector.size // rows, part="embeddings", lora=True))
    return tuple(Adapted(matrix, lora.rank) for matrix in chosen)


def names(architecture: Architecture) -> tuple[str, ...]:
    """The model's own names that an adapter may target."""
    found = dict.fromkeys(matrix.name for layer, _ in architecture.kinds() for matrix in layer.matrices if matrix.lora)
    found.update(dict.fromkeys(matrix.name for matrix in architecture.outside if matrix.lora))
    if architecture.head is not None:
        found[architecture.head.name] = None
    found.update(dict.fromkeys(vector.name for vector in architecture.embeddings))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Adapters:
    adapters: int | None
    saved: int
    assumptions: tuple[str, ...]


@ByIdentity
def _lora_counts(architecture: Architecture, lora: Lora) -> _Adapters:
    notes: list[str] = []
    if not architecture.shape_known:
        return _Adapters(None, 0, ("adapters need the sizes of the model's matrices: only a parameter count is given",))
    if lora.target_modules != ALL_LINEAR:
        unused = _check_targets(architecture, _targets(lora))
        if unused:
            notes.append(f"target_modules {', '.join(unused)}: this model has no matrix of that kind that PEFT adapts")
    adapters = sum(entry.parameters * count for layer, count in architecture.kinds() for entry in _adapters(layer, lora))
    adapters += sum(entry.parameters for entry in adapters_outside(architecture, lora))
    if adapters == 0:
        raise UnknownTarget("", "target_modules", (ALL_LINEAR, *names(architecture)))
    if any(entry.matrix.lora_materialized for layer, _ in architecture.kinds() for entry in _adapters(layer, lora)):
        notes.append("adapters on expert and router weights as PEFT 0.21 on transformers 5 makes them")
    saved = sum(_saved(architecture, name) for name in lora.modules_to_save)
    return _Adapters(adapters, saved, tuple(notes))


def _check_targets(architecture: Architecture, targets: tuple[str, ...]) -> list[str]:
    """Targets that match nothing though their name is a known one; any other unmatched name is an error."""
    unused = []
    everywhere = names(architecture)
    for target in targets:
        if any(_matches(matrix, (target,), layer.mlp.gated) for layer, _ in architecture.kinds() for matrix in layer.matrices):
            continue
        if any(_fits(name, target) for name in everywhere):
            continue
        if target not in CANONICAL:
            raise UnknownTarget(target, "target_modules", tuple(dict.fromkeys((ALL_LINEAR, *CANONICAL, *everywhere))))
        unused.append(target)
    return unused


def _saved(architecture: Architecture, name: str) -> int:
    """Parameters of the modules that ``modules_to_save`` copies and trains whole."""
    sizes = [matrix.parameters * count for layer, count in architecture.kinds() for matrix in layer.matrices if _fits(matrix.name, name)]
    sizes += [vector.size * count for layer, count in architecture.kinds() for vector in layer.vectors if _fits(vector.name, name)]
    sizes += [matrix.parameters for matrix in architecture.outside if _fits(matrix.name, name)]
    sizes += [v.size for v in (*architecture.embeddings, *architecture.outside_vectors) if _fits(v.name, name)]
    if architecture.head is not None and _fits(architecture.head.name, name):
        sizes.append(architecture.head.parameters)
    if not sizes:
        raise UnknownTarget(name, "modules_to_save", names(architecture))
    return sum(sizes)


# -- the counts --------------------------------------------------------------------------------------------------------
def count(run: Run) -> Parameters:
    """All counts of a run."""
    return _count(run.architecture, run.method)


@ByIdentity
def _count(architecture: Architecture, method: Method) -> Parameters:
    sums = _totals(architecture)
    total = sums.total if architecture.declared_total is None else architecture.declared_total
    active = total - round(sums.inactive)
    if architecture.declared_active is not None:
        active = architecture.declared_active
    lora = None if method.lora is None else _lora_counts(architecture, method.lora)
    notes = () if lora is None else lora.assumptions
    trainable: int | None
    if lora is not None:
        trainable = None if lora.adapters is None else lora.adapters + lora.saved
    else:
        trainable = _trainable(architecture, method, total, sums.total)
    return Parameters(
        total=total,
        active=active,
        trainable=trainable,
        embedding=sums.embedding,
        lm_head=sums.head,
        lm_head_tied=architecture.head_tied,
        non_embedding=total - sums.embedding - (0 if architecture.head_tied else sums.head),
        experts=sums.experts,
        adapters=0 if lora is None else lora.adapters,
        per_layer=tuple(sorted(set(sums.layer_parameters))),
        layer_parameters=sums.layer_parameters,
        saved_modules=0 if lora is None else lora.saved,
        assumptions=notes,
    )


def _trainable(architecture: Architecture, method: Method, total: int, counted: int) -> int:
    """Own weights that get a gradient."""
    if not method.frozen:
        return total
    parts = trained(architecture, method)
    frozen = sum(_frozen_of_layer(layer, parts, index) for index, layer in enumerate(architecture.layers))
    outside: list[Matrix | Vector] = [*architecture.embeddings, *architecture.outside, *architecture.outside_vectors]
    frozen += sum(_size(item) for item in outside if not parts.part(item.part))
    if architecture.head is not None and not parts.head(architecture.head_tied):
        frozen += _untied_head(architecture)
    return max(0, total - frozen) if counted else total


def _frozen_of_layer(layer: Layer, parts: Trained, index: int) -> int:
    if index in parts.frozen_layers:
        return layer.parameters
    items: list[Matrix | Vector] = [*layer.matrices, *layer.vectors]
    return sum(_size(item) for item in items if item.part != "embeddings" and not parts.part(item.part))


def _size(item: Matrix | Vector) -> int:
    return item.size if isinstance(item, Vector) else item.parameters
