"""Warnings: what a caller should know before trusting a quote.

``catalogue`` lists every code with its meaning, those of the spec and of the service included; ``rules`` looks at a finished
estimate; ``idle_fields`` says which fields of the job, its tests, its post-training and its prices change nothing.
"""

from .catalogue import MEANINGS, Warning, no_effect

__all__ = ["MEANINGS", "Warning", "no_effect"]
