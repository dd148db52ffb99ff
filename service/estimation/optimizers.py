"""Optimizers: one record each, all that is true of an optimizer whatever the stack. Adding one is an entry here.

Sources: [bnb] bitsandbytes 0.44+ keeps one fp32 absmax per 256 values of an 8-bit state, states of tables in 32 bits
(``GlobalOptimManager``, embeddings), and paged states in unified memory (``optim/optimizer.py``, ``get_paged``); [ao] torchao 4-bit
AdamW: two packed 4-bit states and one fp32 scale per 128 values of each; [lion] arXiv 2302.06675, one momentum; [muon] Muon keeps one
momentum for hidden matrices and leaves embeddings, head and vectors to AdamW; [galore] arXiv 2403.03507: both Adam states of an m x n
matrix in rank r of the longer side, and the projection of the shorter; [apollo] arXiv 2412.05270: the same states, the projection drawn
from a seed; both ranks 128 by the Hugging Face trainer's default; [adafactor] arXiv 1804.04235: one fp32 row and one column of second
moments a matrix, vectors whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .architecture import Architecture
from .by_identity import ByIdentity

_EIGHT_BIT = 1 + 4 / 256  # one state [bnb]
_FOUR_BIT = 0.5 + 4 / 128  # one state [ao]
_PROJECTED_RANK = 128  # [galore], [apollo]

# Bytes a parameter of all states of a model, of plain states that take so many bytes each.
ByShape = Callable[[Architecture, float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerRecord:
    """One optimizer; every field is required."""

    plain_states: float  # states of a parameter in the recipe's own width
    quantized_state_bytes: float  # bytes a parameter of all states that have a width of their own
    by_shape: ByShape | None  # where states depend on the shape of each matrix; ``plain_states`` bounds them where that is unknown
    bounds_from_below: bool  # whether that bound is the least, not the most
    assumption: str | None  # what is assumed of the states
    paged: bool  # states lie in unified memory: the driver moves them to the host where the device is full, unseen by torch's counters
    foreach_temporaries: bool  # torch's foreach implementation makes one parameter-sized temporary
    lighter: tuple[str, ...]  # what to offer in its place where memory is short, nearest first
    table_state_bytes: float | None  # bytes a parameter of the states of token tables, where these are kept wider than the others'


_SMALL = "states of small tensors, kept in 32 bits, are not counted apart"
_PROJECTED = f"rank {_PROJECTED_RANK} projections of every matrix in the blocks"


def _plain(states: float, *, foreach: bool, paged: bool = False, lighter: tuple[str, ...] = ()) -> OptimizerRecord:
    return OptimizerRecord(
        plain_states=states,
        quantized_state_bytes=0.0,
        by_shape=None,
        bounds_from_below=False,
        assumption=None,
        paged=paged,
        foreach_temporaries=foreach,
        lighter=lighter,
        table_state_bytes=None,
    )


def _quantized(state_bytes: float, *, table: float | None, paged: bool = False, lighter: tuple[str, ...] = ()) -> OptimizerRecord:
    return OptimizerRecord(
        plain_states=0.0,
        quantized_state_bytes=state_bytes,
        by_shape=None,
        bounds_from_below=False,
        assumption=_SMALL,
        paged=paged,
        foreach_temporaries=False,
        lighter=lighter,
        table_state_bytes=table,
    )


def _shaped(by_shape: ByShape, bound: float, *, below: bool, assumption: str | None) -> OptimizerRecord:
    return OptimizerRecord(
        plain_states=bound,
        quantized_state_bytes=0.0,
        by_shape=by_shape,
        bounds_from_below=below,
        assumption=assumption,
        paged=False,
        foreach_temporaries=False,
        lighter=(),
        table_state_bytes=None,
    )


@ByIdentity
def _sizes(architecture: Architecture) -> tuple[tuple[tuple[int, int, int], ...], int, int]:
    """Matrices of the blocks (rows, columns, copies), all parameters (a tied head once), and those outside these matrices."""
    matrices = tuple((m.inputs, m.outputs, m.copies) for layer in architecture.layers for m in layer.matrices)
    head = architecture.head.parameters if architecture.head is not None and not architecture.head_tied else 0
    total = (
        sum(layer.parameters * count for layer, count in architecture.kinds())
        + sum(vector.size for vector in architecture.embeddings)
        + sum(matrix.parameters for matrix in architecture.outside)
        + sum(vector.size for vector in architecture.outside_vectors)
        + head
    )
    return matrices, total, total - sum(rows * columns * copies for rows, columns, copies in matrices)


def _muon(architecture: Architecture, state: float) -> float:
    _, total, outside = _sizes(architecture)
    return (state * (total - outside) + 2 * state * outside) / total


def _adafactor(architecture: Architecture, state: float) -> float:
    matrices, total, _ = _sizes(architecture)
    factored = sum((rows + columns) * copies for rows, columns, copies in matrices)
    tables = sum(table.size // max(architecture.hidden, 1) + architecture.hidden for table in architecture.embeddings)
    if architecture.head is not None and not architecture.head_tied:
        tables += architecture.head.inputs + architecture.head.outputs
    return 4.0 * (factored + tables) / total


def _projected(architecture: Architecture, state: float, *, projection_kept: bool) -> float:
    matrices, total, outside = _sizes(architecture)
    states = 0.0
    for rows, columns, copies in matrices:
        short, long = min(rows, columns), max(rows, columns)
        rank = min(_PROJECTED_RANK, short)
        states += copies * state * (2 * rank * long + (rank * short if projection_kept else 0))
    return (states + 2 * state * outside) / total


def _galore(architecture: Architecture, state: float) -> float:
    return _projected(architecture, state, projection_kept=True)


def _apollo(architecture: Architecture, state: float) -> float:
    return _projected(architecture, state, projection_kept=False)


OPTIMIZERS: Mapping[str, OptimizerRecord] = MappingProxyType(
    {
        "adamw": _plain(2, foreach=True, lighter=("adamw_8bit", "paged_adamw_8bit", "adafactor")),
        "adamw_8bit": _quantized(2 * _EIGHT_BIT, table=8.0, lighter=("paged_adamw_8bit", "adafactor")),
        "paged_adamw_8bit": _quantized(2 * _EIGHT_BIT, table=8.0, paged=True),
        "paged_adamw": _plain(2, foreach=False, paged=True, lighter=("adafactor",)),
        "adamw_4bit": _quantized(2 * _FOUR_BIT, table=None),
        "adafactor": _shaped(_adafactor, 0, below=True, assumption=None),
        "sgd": _plain(0, foreach=False),
        "sgd_momentum": _plain(1, foreach=True),
        "lion": _plain(1, foreach=True, lighter=("lion_8bit",)),
        "lion_8bit": _quantized(_EIGHT_BIT, table=4.0),
        "muon": _shaped(_muon, 1, below=True, assumption=None),
        "galore_adamw": _shaped(_galore, 2, below=False, assumption=_PROJECTED),
        "apollo": _shaped(_apollo, 2, below=False, assumption=_PROJECTED),
    }
)


def state_bytes(name: str, state: float, architecture: Architecture) -> tuple[float, str | None, bool]:
    """Bytes a parameter of all states of an optimizer whose plain state takes ``state`` bytes; what was assumed; whether it bounds."""
    record = OPTIMIZERS[name]
    if record.by_shape is None:
        return record.plain_states * state + record.quantized_state_bytes, record.assumption, False
    if architecture.shape_known:
        return record.by_shape(architecture, state), record.assumption, False
    side = "below" if record.bounds_from_below else "above"
    return record.plain_states * state, f"{name} depends on the shape of each matrix, which is not known: bounded from {side}", True
