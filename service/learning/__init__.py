"""Pure statistics of estimates against measurements: errors, pooled factors, conformal intervals, drift. Nothing of HTTP or storage.

    statistics    errors of quotes, and the figures of a group of them
    histogram     the same errors counted in buckets, for groups of many
    drift         a change in bias (the *spec's* drift is another thing: steps and devices other than quoted)
    drivers       from measured items to the drivers that are corrected, each with its evidence
    calibration   the model of a driver's errors, what is known of its cells, and what that predicts
    pooling       how the model is fitted
    conformal     intervals from past errors
    backtest      history replayed in order

A *driver* is a figure that others follow from (``estimation.correction``); a *cell* holds runs of a kind (a device with a stack, a team
on a cluster ...), in a wider cell; a *score* is an error in units of the deviation that was expected of it.
"""
