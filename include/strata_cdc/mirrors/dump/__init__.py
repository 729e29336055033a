"""Dumps: the rows of a table, read in chunks from a server that is written to meanwhile, made exact at one position.
Not here: landing (`landing/`), tracking (`tracking/`), rows of one SELECT (`changes/select/`), mirrors
(`mirrors/table.py`)."""
