"""Change tables: their layout, their Parquet files, their publication, and the port to the outputs that commit them.
Not here: decoding (`changes/`), checking (`quality/checks/`)."""
