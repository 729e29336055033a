"""Change tables as Delta tables; the one folder that imports deltalake.
Not here: which files and columns a publication brings (`tables/commit.py`, `tables/continued.py`)."""
