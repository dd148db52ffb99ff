"""The run spec: what callers post, checked and resolved into a ``Run``."""
