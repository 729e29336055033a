"""SQL of other engines, written and read with sqlglot: statements that are made from a schema version, and users'
conditions (decision 26, `docs/decisions/`). Not here: the DDL of binlogs (`schema/ddl/`)."""
