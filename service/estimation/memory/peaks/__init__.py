"""The peaks of the worst device: found (``worst``), corrected and bounded (``figures``), described (``items``), quoted (``estimate``)."""
