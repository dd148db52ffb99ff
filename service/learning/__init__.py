"""Pure statistics of estimates against measurements: errors, pooled factors, conformal intervals, drift. Nothing of HTTP or storage."""
