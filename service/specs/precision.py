"""Bytes of a quantized weight with its scales.

Sources: [nf4] arXiv 2305.14314: fp32 absmax a block, or 8-bit absmax and one fp32 per 256 of them; [gptq] 4-bit values, and an fp16
scale and a 4-bit zero a group; [int8] one byte a weight (row scales below 0.1 %).
"""

from __future__ import annotations

from service.estimation.run import Quantization


def quantized_weight_bytes(quantization: Quantization) -> float:
    """Bytes of one quantized weight with its scales."""
    block = quantization.block_size
    if quantization.format in ("nf4", "fp4"):
        return 0.5 + (1 / block + 4 / (256 * block) if quantization.double_quantization else 4 / block)  # [nf4]
    if quantization.format == "gptq_int4":
        return 0.5 + 2.5 / block  # [gptq]
    return 1.0  # [int8]
