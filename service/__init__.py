"""Runquote: the budget of a model-training run, quoted before it starts and checked after it ends."""

__version__ = "1.0.0"
