"""Numbers fitted on measured runs, one generated file a model, each with its rows, its priors and the command that writes it."""
