"""Reading and writing tokens without training: forward passes at the run's own speed, decoding at memory bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

from .architecture import Attention
from .parameters import Parameters
from .run import Hardware, Run
from .spread import Spread, multiples

WEIGHT_BYTES = 2  # generation reads bf16 weights, whatever the trainer holds
# Decoding reads every weight once a step for the whole batch; engines reach 50-80 % of the memory bandwidth.
BANDWIDTH_SHARE = 0.6
# ... and at large batches it is bound by the matrix units, at about the efficiency of training.
COMPUTE_SHARE = 0.3
DECODE_RANGE = (0.5, 2.5)  # of the expected seconds, 80 %: batch, scheduling and ragged lengths
EVALUATION_BATCH = 32  # sequences decoded together by one copy of the model: batches of evaluation harnesses, 8 to 128
ROLLOUT_BATCH = 128  # sequences an inference engine keeps in flight for one copy of the model (vLLM's default limit is 256)
MEMORY_SHARE = 0.6  # of a device's memory may hold weights, the rest is the key/value cache


@dataclass(frozen=True, slots=True)
class Decoded:
    """Seconds of all devices together, or why they are not known."""

    seconds: Spread | None
    assumptions: tuple[str, ...]
    reason: str | None = None


def key_value_bytes(run: Run) -> float | None:
    """Bytes of cache a token of context, all layers; None where the shape is not known."""
    if not run.architecture.shape_known:
        return None

    def one(attention: Attention) -> int:
        if attention.latent and attention.key_value_lora_rank is not None:
            return attention.key_value_lora_rank + (attention.rope_dim or 0)
        return attention.key_value_heads * (attention.query_key_dim + attention.value_dim)

    return float(sum(one(layer.attention) for layer in run.architecture.layers) * WEIGHT_BYTES)


def devices_of_a_copy(hardware: Hardware | None, weight_bytes: float) -> int:
    """Devices that one copy of a model is split over while it generates: as few as leave room for the cache."""
    if hardware is None:
        return 1
    spread_over = 1
    while spread_over < hardware.device_count and weight_bytes > MEMORY_SHARE * hardware.device.memory_bytes * spread_over:
        spread_over *= 2
    return min(spread_over, hardware.device_count)


def decode(run: Run, parameters: Parameters, generated: float, context: float, batch: int) -> Decoded:
    """Seconds in which all devices generate tokens: per decoding step max(bytes / bandwidth, FLOPs / peak) of each copy.

    ``context`` is the mean length that a generated token attends to; ``batch`` the sequences each copy decodes at once.
    """
    if generated == 0:
        return Decoded(Spread(0.0, 0.0, 0.0), ())
    hardware = run.hardware
    if hardware is None:
        return Decoded(None, (), "no hardware is given")
    device = hardware.device
    if device.hbm_bytes_per_second is None:
        return Decoded(None, (), f"the memory bandwidth of {device.name} is not known")
    total, active = float(parameters.total), float(parameters.active)
    weights = total * WEIGHT_BYTES
    spread_over = devices_of_a_copy(hardware, weights)
    copies = max(hardware.device_count / spread_over, 1.0)
    # A batch touches every weight of a dense model, and of a mixture at most what its tokens are routed to.
    cache = key_value_bytes(run)
    read = min(weights, active * WEIGHT_BYTES * batch) + batch * context * (cache or 0.0)
    bandwidth = read / (spread_over * device.hbm_bytes_per_second * BANDWIDTH_SHARE)
    peak = device.reference_peak_flops_per_second
    compute = 0.0 if peak is None else 2 * active * batch / (spread_over * peak * COMPUTE_SHARE)  # 2N a token: Kaplan, section 2.1
    step = max(bandwidth, compute)
    seconds = generated / (copies * batch) * step
    low, high = DECODE_RANGE
    kept = (
        f"the cache of {context:.4g} tokens a sequence" if cache is not None else "no cache, whose size the model's unknown layers decide,"
    )
    bound = "memory bandwidth" if bandwidth >= compute else "the matrix units"
    return Decoded(
        multiples(seconds, low, high, run.interval_coverage),
        (
            f"{generated:.4g} tokens decoded in batches of {batch} by {copies:g} copies of {spread_over} device(s), bound by {bound}",
            (f"bf16 weights and {kept} read once a step at {BANDWIDTH_SHARE:.0%} of {device.hbm_bytes_per_second:.3g} B/s"),
        ),
    )
