"""The past of a source: tables as they were at a moment, and SQL on them (docs/sql.md); their rows
through time (docs/row.md).
Not here: mirrors (`mirrors/`), what MySQL's SQL means (`dialects/queries/`)."""
