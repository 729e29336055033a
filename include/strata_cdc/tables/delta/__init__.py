"""Change tables as Delta tables; this is the only folder that imports deltalake.
Not here: which files and columns a publication adds (`tables/commit.py`, `tables/continued.py`)."""
