"""Which coefficients make up each rate of a run: peak x efficiency, bandwidth x efficiency.

A rate is its base times the product of the coefficients named here that ``fitted/step_time.py`` holds; a name it does not hold
counts as 1. So a device or stack without measurements of its own gets what is common to all.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ..fitted.step_time import COEFFICIENTS
from ..recipes import RECIPES
from .predictable import PredictableRun
from .seconds import Rates

# Where no source says how fast a link is: a PCIe 4 slot and a 100 Gb/s network card.
SLOW_INTRA, SLOW_INTER = 32e9, 12.5e9


class RateKey(NamedTuple):
    """What the efficiencies of a run depend on."""

    architecture: str  # of the device
    stack: str
    recipe: str
    attention: str
    sharding: str
    compiled: bool
    fused_loss: bool
    sequence_parallel: bool


def key(known: PredictableRun) -> RateKey:
    """The key of a run."""
    run = known.run
    return RateKey(
        architecture=known.hardware.device.architecture or "",
        stack=run.software.stack,
        recipe=run.precision.recipe,
        attention=run.attention,
        sharding=run.layout.sharding,
        compiled=run.software.compile,
        fused_loss=run.software.fused_loss,
        sequence_parallel=run.layout.sequence_parallel,
    )


def names(k: RateKey) -> dict[str, tuple[str, ...]]:
    """Names of the coefficients of every rate."""
    architecture, stack = k.architecture, k.stack
    # No run with 4-bit products is measured: they are taken to reach the share of their peak that 8-bit ones reach.
    narrow = RECIPES[k.recipe].narrow
    # Unfused attention marks the older Megatron-DeepSpeed, whose two sources differ by a quarter in matrix speed and are told apart
    # by their sharding alone. Where attention is fused, sharding has no business with the speed of a matrix product.
    older = (f"matrix@{stack}+eager/{k.sharding}",) if k.attention == "eager" else ()
    matrix = ("matrix", f"matrix:{architecture}", f"matrix@{stack}", *older)
    products = (*matrix, "matrix/fp8", f"matrix/fp8:{architecture}") if narrow else matrix
    flash = ("attention", f"attention:{architecture}", f"attention@{stack}")
    elementwise = ("elementwise", f"elementwise@{stack}")
    host = ("kernel_host_seconds", f"kernel_host_seconds@{stack}", f"kernel_host_seconds:{architecture}")
    return {
        "matrix": products,
        "expert": (*products, "expert", *(("expert/fp8",) if narrow else ())),
        "head": matrix,
        "matrix_bytes": ("matrix_bytes",),
        "attention": ("attention/eager",) if k.attention == "eager" else flash,
        "attention_bytes": ("attention_bytes",),
        "elementwise": (*elementwise, *(("elementwise+compile",) if k.compiled else ())),
        "logits": ("logits", *(("logits+fused_loss",) if k.fused_loss else ())),
        "accumulation": ("optimizer",),
        "optimizer": ("optimizer",),
        "dequantized": ("dequantized",),
        "host_link": ("host_link",),
        "intra": ("intra",),
        "inter": ("inter",),
        "kernel_seconds": ("kernel_seconds",),
        "kernel_host_seconds": (*host, *(("kernel_host_seconds+compile",) if k.compiled else ())),
        "message_seconds": ("message_seconds",),
        "message_host_seconds": ("message_host_seconds",),
        "stage_message_seconds": ("stage_message_seconds",),
        "step_seconds": ("step_seconds",),
        "tensor_exposed": ("tensor_exposed", *(("tensor_exposed+sequence_parallel",) if k.sequence_parallel else ())),
        "context_exposed": ("context_exposed",),
        "expert_exposed": ("expert_exposed",),
        "sharding_exposed": ("sharding_exposed",),
        "sharding_cover": ("sharding_cover",),
        "data_exposed": ("data_exposed", f"data_exposed@{stack}"),
    }


def bases(known: PredictableRun) -> dict[str, float]:
    """What each rate's coefficients multiply; 1 for those that are seconds or shares themselves."""
    peak, memory = known.peak_flops_per_second, known.hbm_bytes_per_second
    # Narrow recipes leave the head and the attention in 16 bits.
    wide = RECIPES[known.run.precision.recipe].product_bits > 16
    head = peak if wide else known.reference_peak_flops_per_second
    return {
        "matrix": peak,
        "expert": peak,
        "head": head,
        "attention": head,
        "matrix_bytes": memory,
        "attention_bytes": memory,
        "elementwise": memory,
        "logits": memory,
        "accumulation": memory,
        "optimizer": memory,
        "intra": known.hardware.intra_node_bytes_per_second or SLOW_INTRA,
        "inter": known.hardware.inter_node_bytes_per_second or SLOW_INTER,
    }


@cache
def efficiencies(k: RateKey) -> tuple[tuple[str, float], ...]:
    """Product of the coefficients of every rate."""
    out = []
    for rate, parts in names(k).items():
        product = 1.0
        for name in parts:
            product *= COEFFICIENTS.get(name, 1.0)
        out.append((rate, product))
    return tuple(out)


def rates_of(known: PredictableRun, residual: float) -> Rates:
    """The rates of a run."""
    base = bases(known)
    return Rates(**{name: base.get(name, 1.0) * product for name, product in efficiencies(key(known))}, residual=residual)
