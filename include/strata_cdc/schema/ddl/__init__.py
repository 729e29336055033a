"""MySQL's DDL: a statement and its context in, typed changes out. A recursive-descent reader.
Not here: what the changes make of tables (`schema/apply/`, `schema/replay/`)."""
