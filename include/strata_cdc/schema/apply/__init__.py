"""The effect of changes on a definition, by the server's own rules.
Not here: reading statements (`schema/ddl`), the collection of all tables (`schema/replay/catalog.py`)."""
