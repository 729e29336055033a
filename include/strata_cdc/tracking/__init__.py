"""DDL of the landed stream to schema versions, snapshots of a live schema, and who is informed of DDL (`watch/`).
Not here: what a statement does to tables (`schema/`)."""
