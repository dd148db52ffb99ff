"""Precision recipes: one record each, all that is true of a recipe whatever the stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Unit = Literal["bf16", "fp16", "fp8", "fp4", "fp32"]
Widths = tuple[float, float, float, float]  # bytes a parameter: weights, gradients, master weights, one state of the optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One recipe; every field is required."""

    matrix_unit: Unit  # whose dense peak its matrix products could reach
    product_bits: int  # width of what the matrix products read
    activation_bytes: int  # width of activations (narrow recipes keep them at 16 bits: torchtitan's float8 runs)
    widths: Widths | None  # None: a mixed recipe, whose widths the stack decides
    autocasts: bool  # 32-bit weights run under autocast, or an engine keeps 32-bit master weights
    trains_16_bit_weights: bool  # weights and residual stream are 16-bit whatever the stack
    lighter: tuple[str, ...]  # what to offer in its place where memory is short and the device has bf16, nearest first
    highest_mfu: float  # 6ND over the dense bf16 peak: hardly any published run exceeds it

    @property
    def narrow(self) -> bool:
        """Whether matrix products read fewer than 16 bits."""
        return self.product_bits < 16

    @property
    def width(self) -> str:
        """The width of the products in words, by which measured runs are alike."""
        return f"{self.product_bits} bit"


# The best dense pretraining runs report 0.40 to 0.57 of the peak (PaLM 0.462, Llama 3 405B 0.38 to 0.43, fms-fsdp on A100 0.57), fp8
# over the bf16 peak up to 1.0.
_HIGHEST, _HIGHEST_NARROW = 0.65, 1.05


def _mixed(unit: Unit, bits: int, highest: float) -> Recipe:
    return Recipe(
        matrix_unit=unit,
        product_bits=bits,
        activation_bytes=2,
        widths=None,
        autocasts=True,
        trains_16_bit_weights=False,
        lighter=("bf16_pure",),
        highest_mfu=highest,
    )


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "fp32": Recipe(
            matrix_unit="fp32",
            product_bits=32,
            activation_bytes=4,
            widths=(4, 4, 0, 4),  # HTTP contract, section 3
            autocasts=False,
            trains_16_bit_weights=False,
            lighter=("bf16_mixed", "bf16_pure"),
            highest_mfu=_HIGHEST,
        ),
        "bf16_mixed": _mixed("bf16", 16, _HIGHEST),
        "fp16_mixed": _mixed("fp16", 16, _HIGHEST),
        "bf16_pure": Recipe(
            matrix_unit="bf16",
            product_bits=16,
            activation_bytes=2,
            widths=(2, 2, 0, 2),  # HTTP contract, section 3
            autocasts=False,
            trains_16_bit_weights=True,
            lighter=(),
            highest_mfu=_HIGHEST,
        ),
        "fp8_mixed": _mixed("fp8", 8, _HIGHEST_NARROW),
        "nvfp4_mixed": _mixed("fp4", 4, _HIGHEST_NARROW),
    }
)
