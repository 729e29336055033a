"""Groups: many sources as one stream, in one order of time; no source's changes are sent too early (docs/groups.md).
Not here: the stream of one source (`streams`), settings (`config`)."""
