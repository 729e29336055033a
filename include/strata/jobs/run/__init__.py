"""What the steps of one run hand to each other: values and the files of a run's folder."""
