"""What changes make of a definition, by the server's own rules.
Not here: reading statements (`schema/ddl`), the set of all tables (`schema/replay/catalog.py`)."""
