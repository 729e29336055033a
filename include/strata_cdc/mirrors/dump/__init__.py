"""Dumps: the rows of a table read in pieces from a server whose writers go on, made exact at one position.
Not here: landing and tracking meanwhile (`mirrors/dump/`), rows of one SELECT (`changes/select/`), mirrors
(`table.py`)."""
