"""Scaling laws and speed-ups over HTTP."""
