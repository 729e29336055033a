"""Mirrors: every table as it is on the server, as a Delta table that says its position (design: docs/mirrors.md).
Not here: change tables (`strata/tables`), dumps of a server (`mirrors/dump`)."""
