"""The pure core: a run in, items out. It knows nothing of HTTP, databases or clocks."""
