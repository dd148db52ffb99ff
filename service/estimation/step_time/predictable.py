"""Whether a run says enough for its step to be predicted: a record in which all of that is known, or the reason why not."""

from __future__ import annotations

from typing import NamedTuple

from ..run import Hardware, Run


class PredictableRun(NamedTuple):
    """A run and what its step time needs of it, none of it missing."""

    run: Run
    hardware: Hardware
    length: float  # positions of a full sequence or image (of the encoder where there are two)
    decoder_length: float
    peak_flops_per_second: float  # dense, of the recipe's own matrix unit
    reference_peak_flops_per_second: float  # dense, 16 bit
    hbm_bytes_per_second: float

    @property
    def node_devices(self) -> float:
        """Devices that reach each other over the fast link."""
        return float(max(self.hardware.devices_per_node, self.hardware.device.switched_link_devices))


def predictable(run: Run) -> PredictableRun | str:
    """The run with all that a prediction needs, or why its step cannot be predicted."""
    if run.hardware is None:
        return "no hardware is given"
    if not run.architecture.shape_known:
        return "only a parameter count is known of the model, not its shape"
    positions = run.sequence_length if run.architecture.image_positions is None else run.architecture.image_positions
    if positions is None:
        return "sequence_length is not given"
    device = run.hardware.device
    peak, reference = device.recipe_peak_flops_per_second(run.precision.recipe), device.reference_peak_flops_per_second
    if peak is None or reference is None:
        return "the device's dense peak is not known"
    if device.hbm_bytes_per_second is None:
        return "the device's memory bandwidth is not known"
    length = float(positions)
    return PredictableRun(
        run=run,
        hardware=run.hardware,
        length=length,
        decoder_length=float(run.decoder_sequence_length or length),
        peak_flops_per_second=peak,
        reference_peak_flops_per_second=reference,
        hbm_bytes_per_second=device.hbm_bytes_per_second,
    )
