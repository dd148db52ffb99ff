"""How far quotes were from what was measured, and what the next quote learns from it.

``rollup`` follows every write of measurements with daily histograms (``repository``), ``query`` answers from these or, where they are
few, from the measurements themselves, which ``history`` reads; calibrations and ``backtests`` are made from the same history.
"""
