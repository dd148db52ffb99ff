"""Plans: the layouts of a run that are legal and fit, ranked by device-hours, wall clock or cost."""
