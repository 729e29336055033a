"""A stream of transactions in, versions of tables out.
Not here: reading binlogs (`tracking/`), storing versions (`schema/history/`)."""
