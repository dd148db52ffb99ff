"""Bytes a parameter by recipe, stack, optimizer and quantization: the contract's table and what optimizers keep.

The four figures are weights, gradients, master weights and the sum of all optimizer states. Sources:
[table] HTTP contract, section 3; [bnb] bitsandbytes 0.44+ keeps one fp32 absmax per 256 values of an 8-bit state;
[ao] torchao 4-bit AdamW: two packed 4-bit states and one fp32 scale per 128 values of each; [lion] arXiv 2302.06675, one
momentum; [muon] Muon keeps one momentum for hidden matrices and leaves embeddings, head and vectors to AdamW;
[galore] arXiv 2403.03507: both Adam states of an m x n matrix in rank r of the longer side, and the projection of the
shorter; [apollo] arXiv 2412.05270: the same states, the projection drawn from a seed; both ranks 128 by the Hugging Face
trainer's default; [adafactor] arXiv 1804.04235: one fp32 row and one column of second moments a matrix, vectors whole;
[nf4] arXiv 2305.14314: fp32 absmax a block, or 8-bit absmax and one fp32 per 256 of them; [gptq] 4-bit values, and an
fp16 scale and a 4-bit zero a group; [int8] one byte a weight (row scales below 0.1 %).
"""

from __future__ import annotations

from service.estimation.architecture import Architecture
from service.estimation.by_identity import ByIdentity
from service.estimation.run import Quantization, Recipe, Stack

# (weights, gradients, master weights) and bytes of one optimizer state, for AdamW-like optimizers with full-precision states [table]
_MIXED: dict[Stack, tuple[float, float, float, float]] = {
    "hf_transformers": (4, 4, 0, 4),
    "fsdp_native": (4, 4, 0, 4),
    "llm_foundry": (4, 4, 0, 4),
    "deepspeed": (2, 2, 4, 4),
    "megatron": (2, 4, 4, 4),
}
_WHOLE: dict[str, tuple[float, float, float, float]] = {"fp32": (4, 4, 0, 4), "bf16_pure": (2, 2, 0, 2)}

_EIGHT_BIT = 1 + 4 / 256  # one state [bnb]
_FOUR_BIT = 0.5 + 4 / 128  # one state [ao]
_PROJECTED_RANK = 128  # [galore], [apollo]

# States of one width a parameter; quantized states do not depend on the recipe.
_STATES = {"adamw": 2, "paged_adamw": 2, "sgd": 0, "sgd_momentum": 1, "lion": 1}
_QUANTIZED = {
    "adamw_8bit": 2 * _EIGHT_BIT,
    "paged_adamw_8bit": 2 * _EIGHT_BIT,
    "lion_8bit": _EIGHT_BIT,
    "adamw_4bit": 2 * _FOUR_BIT,
}


def widths(recipe: Recipe, stack: Stack) -> tuple[float, float, float, float]:
    """Bytes a parameter of weights, gradients, master weights and one optimizer state."""
    return _WHOLE.get(recipe) or _MIXED[stack]


def optimizer_state_bytes(name: str, state: float, architecture: Architecture) -> tuple[float, str | None]:
    """Bytes a parameter of all states of an optimizer whose plain state takes ``state`` bytes, and what was assumed."""
    if name in _STATES:
        return _STATES[name] * state, None
    if name in _QUANTIZED:
        return _QUANTIZED[name], "states of small tensors, kept in 32 bits, are not counted apart"
    return _shaped(architecture, name, state)


@ByIdentity
def _shaped(architecture: Architecture, name: str, state: float) -> tuple[float, str | None]:
    """Optimizers whose states depend on the shape of each matrix, averaged over the model."""
    if not architecture.shape_known:
        return {"adafactor": 0.0, "muon": state, "galore_adamw": 2 * state, "apollo": 2 * state}[name], (
            f"{name} depends on the shape of each matrix, which is not known: bounded from "
            + ("below" if name in ("adafactor", "muon") else "above")
        )
    matrices = [(m.inputs, m.outputs, m.copies) for layer in architecture.layers for m in layer.matrices]
    hidden = sum(rows * columns * copies for rows, columns, copies in matrices)
    total = _parameters(architecture)
    outside = total - hidden  # embeddings, head, vectors and biases
    if name == "muon":
        return (state * hidden + 2 * state * outside) / total, None
    if name == "adafactor":
        factored = sum((rows + columns) * copies for rows, columns, copies in matrices)
        tables = sum(table.size // max(architecture.hidden, 1) + architecture.hidden for table in architecture.embeddings)
        if architecture.head is not None and not architecture.head_tied:
            tables += architecture.head.inputs + architecture.head.outputs
        return 4.0 * (factored + tables) / total, None
    states = 0.0
    for rows, columns, copies in matrices:
        short, long = min(rows, columns), max(rows, columns)
        rank = min(_PROJECTED_RANK, short)
        states += copies * state * (2 * rank * long + (rank * short if name == "galore_adamw" else 0))
    return (states + 2 * state * outside) / total, f"rank {_PROJECTED_RANK} projections of every matrix in the blocks"


def _parameters(architecture: Architecture) -> int:
    """Parameters, a tied head counted once."""
    head = architecture.head.parameters if architecture.head is not None and not architecture.head_tied else 0
    return (
        sum(layer.parameters * count for layer, count in architecture.kinds())
        + sum(vector.size for vector in architecture.embeddings)
        + sum(matrix.parameters for matrix in architecture.outside)
        + sum(vector.size for vector in architecture.outside_vectors)
        + head
    )


def quantized_weight_bytes(quantization: Quantization) -> float:
    """Bytes of one quantized weight with its scales."""
    block = quantization.block_size
    if quantization.format in ("nf4", "fp4"):
        return 0.5 + (1 / block + 4 / (256 * block) if quantization.double_quantization else 4 / block)  # [nf4]
    if quantization.format == "gptq_int4":
        return 0.5 + 2.5 / block  # [gptq]
    return 1.0  # [int8]
