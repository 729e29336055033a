"""Change tables: their layout, their Parquet files and their commits.
Not here: decoding (`rows/`), judging (`checks/`)."""
