"""API keys: made, listed, rotated, revoked; what a request's key allows is asked in ``kit.security``."""
