"""What a team's own measurements have taught: versioned factors, written once and looked up for every quote.

Here they are kept and looked up. ``learning`` fits them, ``accuracy`` makes them (``POST /v1/calibrations``) from the history that it
reads, ``estimation.correction`` says what one does to an estimate.
"""
