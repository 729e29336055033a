"""What the steps of one run hand to each other: values, verdicts, and the files of a run's folder.
Not here: the steps (`pipeline/`)."""
