"""How fast checkpoints go to storage and come back."""

from __future__ import annotations

from dataclasses import dataclass

from ..items import Basis
from ..numeric import Number, ceil_divide, maximum, minimum, where
from ..placement import place
from ..spread import Spread, exactly, multiples, say
from .timed_run import TimedRun

# Writing 2.3 TB in 40 s from 48 nodes: 1.2 GB/s a node (BLOOM-176B on Jean Zay, bigscience chronicles, tr11-176B). Network
# disks of small clusters reach a third of it, a parallel file system on flash four times as much (Llama 3: 2 TB/s sustained
# from 2,000 nodes, arXiv:2407.21783, section 3.3.1).
STORAGE_BYTES_PER_SECOND_PER_NODE = 1.2e9
STORAGE_SPEED_RANGE = (0.25, 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRate:
    """Bytes per second of all ranks together; ``writers`` are the nodes that share the work, None where the caller gave the rate."""

    bytes_per_second: Spread
    writers: Number | None

    @property
    def basis(self) -> Basis:
        """What the rate rests on."""
        return "given" if self.writers is None else "prior"

    @property
    def words(self) -> str:
        """The rate in a sentence."""
        rate = self.bytes_per_second.expected
        if self.writers is None:
            return f"storage takes {rate:.4g} B/s, as given"
        return (
            f"storage takes {say(rate)} B/s: 1.2 GB/s from each of {say(self.writers)} writing node(s) "
            "(BLOOM-176B: 2.3 TB in 40 s from 48 nodes)"
        )

    def seconds(self, amount: float) -> Spread:
        """The time an amount of bytes takes: the slow rate makes the long time."""
        rate = self.bytes_per_second
        return Spread(amount / rate.expected, amount / rate.high, amount / rate.low)


def storage_rate(timed: TimedRun, amount: float = 0.0) -> StorageRate:
    """The rate at which that many bytes are written or read."""
    run, hardware = timed.run, timed.hardware
    given = run.checkpointing.storage_bytes_per_second
    if given is not None:
        return StorageRate(bytes_per_second=exactly(given), writers=None)
    ranks = place(run).writers
    # A layout that cannot hold these bytes (none was stated, most likely) is warned of; the job is then timed as one that is
    # sharded over all its nodes, since no run saves from devices that its model does not fit.
    impossible = (0.0 if run.software.cpu_offload else amount) > ranks * float(hardware.device.memory_bytes)
    holding = ceil_divide(ranks, max(hardware.devices_per_node, 1))
    writers = minimum(where(impossible, timed.nodes, holding), timed.nodes)
    low, high = STORAGE_SPEED_RANGE
    rate = STORAGE_BYTES_PER_SECOND_PER_NODE * maximum(writers, 1)
    return StorageRate(bytes_per_second=multiples(rate, low, high, run.interval_coverage), writers=writers)
