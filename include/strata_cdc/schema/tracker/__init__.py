"""A stream of transactions in, versions of tables out.
Not here: reading binlogs (`tracking/`), where versions are kept (`schema/history/`)."""
