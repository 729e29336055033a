"""MySQL's DDL: a statement and its context in, typed changes out. A recursive-descent parser.
Not here: the effect of the changes on tables (`schema/apply/`, `schema/replay/`)."""
