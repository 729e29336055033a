"""SQL that takes changes back, or makes them again, for the tables as they are now (docs/undo.md).
Not here: reading changes (`past/table_changes.py`), the command (`cli/undo.py`). Nothing here executes SQL."""
