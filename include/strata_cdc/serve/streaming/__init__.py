"""Update streams over HTTP: one decode for all readers that have caught up, and a separate decode for each of the
others.
Not here: what a stream is (`streams/`)."""
