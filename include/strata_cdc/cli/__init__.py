"""The `strata` command.
Not here: the work itself (`pipeline/`)."""
