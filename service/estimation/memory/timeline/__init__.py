"""The moments of a training step on a pipeline stage, and what is live in each."""
