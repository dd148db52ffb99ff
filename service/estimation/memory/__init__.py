"""Memory of one device: states, kept activations, logits and transients by phase and pipeline stage, and the three peaks."""

from .bounds import ProcessPeaks, process_peaks
from .ledger import MemoryEstimate, Peaks, estimate, peaks

__all__ = ["MemoryEstimate", "Peaks", "ProcessPeaks", "estimate", "peaks", "process_peaks"]
