"""The planning step: which intervals and tables a run takes, and the slices that decode them."""
