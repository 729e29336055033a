"""MySQL's binlog: its bytes, the protocol that brings them, typed events and transactions, and the compiled loops over
all of them. Everything that is specific to a family of servers belongs here.
Not here: positions as values (`position/`), rows (`changes/`), what has landed (`landing/`)."""
