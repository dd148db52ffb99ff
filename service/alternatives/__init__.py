"""For a run that does not fit its devices: the smallest changes of its spec that make it fit, each with its price in device-hours.

A *lever* is one kind of change by growing *steps*, each a merge patch (``levers``); pulling levers gives a change, which is *tried* on
the run (``trials``, with ``condensed`` samples); what fits is *found* (``search``), confirmed as the spec would be quoted, and offered
(``suggestions``).
"""
