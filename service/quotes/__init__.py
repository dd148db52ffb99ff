"""Quotes: priced, stored, listed and revised."""
