"""Memory of one device: states, kept activations, logits and transients by phase and pipeline stage, and the three peaks."""

from .estimate import MemoryEstimate, Peaks, estimate, peaks

__all__ = ["MemoryEstimate", "Peaks", "estimate", "peaks"]
