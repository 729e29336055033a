"""Update streams over HTTP: one decode for all readers that have caught up, and one each for those who have not.
Not here: what a stream is (`streams/`)."""
