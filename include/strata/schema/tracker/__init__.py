"""A stream of transactions in, versions of tables out.
Not here: reading binlogs (`jobs/track/`), where versions are kept (`schema/history/`)."""
