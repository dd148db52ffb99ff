"""What every part of the wall clock starts from."""

from __future__ import annotations

from dataclasses import dataclass

from ..numeric import Number
from ..parameters import Parameters
from ..run import Hardware, Run
from ..spread import Spread
from ..storage import CheckpointBytes
from ..tokens import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """A run on its devices whose steps have a time; seconds are numbers, or arrays over the layouts of a search."""

    run: Run
    hardware: Hardware
    workload: Workload
    parameters: Parameters
    step: Spread | None  # seconds of one step; None where the number of steps is not known
    training: Spread  # seconds of all steps
    checkpoint: CheckpointBytes | None  # None where the size of the adapters is not known

    @property
    def devices(self) -> float:
        """Devices that the job holds."""
        return float(self.hardware.device_count)

    @property
    def nodes(self) -> int:
        """Nodes that the job holds."""
        return -(-self.hardware.device_count // max(self.hardware.devices_per_node, 1))

    @property
    def steps(self) -> Number | None:
        """Optimizer steps of the whole run."""
        return self.workload.steps
