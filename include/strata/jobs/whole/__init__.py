"""All steps of a run, one behind the other."""
