"""All tables of a server at one position of its stream, and how each statement changes them.
Not here: one table's definition (`schema/apply/`), reading the stream (`schema/tracker/`)."""
