"""Whether what is decoded is right: checks and verdicts of a run, comparisons with the server, the proof.
Not here: publishing what has passed, and decisions on quarantine (`pipeline/`)."""
