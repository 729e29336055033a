"""Groups: many sources as one, in one order of time, none ahead of the others (docs/groups.md).
Not here: the stream of one source (`streams`), settings (`config`)."""
