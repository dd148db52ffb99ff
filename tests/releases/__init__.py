"""Databases of each release as SQL text, `<migration>.<engine>.sql`; `python -m tests.releases` writes those of this one.

From release 1.0.0 on migrations are never edited: what a release stored, every later one reads.
"""
