"""Change tables: their layout, their Parquet files, their publication, and the port to the outputs that commit it.
Not here: decoding (`changes/`), judging (`quality/checks/`)."""
