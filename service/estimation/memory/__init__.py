"""Memory of one device: states, kept activations, logits and transients by phase and pipeline stage, and the three peaks."""

from .peaks.estimate import MemoryEstimate, estimate
from .peaks.figures import Figures, figures

__all__ = ["Figures", "MemoryEstimate", "estimate", "figures"]
