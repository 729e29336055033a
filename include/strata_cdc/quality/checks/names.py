"""What the columns of a change table are called: as readers know it (docs/reading.md), not as the writer has it.
Not here: what the judged frames call them (`rules.py`, `frame_column`)."""

from __future__ import annotations

METADATA = (
    "_before",
    "_op",
    "_source",
    "_gtid",
    "_seq",
    "_row",
    "_committed_at",
    "_binlog_file",
    "_binlog_pos",
    "_schema_version",
    "_missing",
    "_invalid",
    "_interval",
)
"""The columns that every change has after its table's columns."""


def column_name(name: str) -> str:
    """What a column of MySQL's table is called: one like those of `METADATA`, in any case and with any further
    underscores in front, has one more of them."""
    return f"_{name}" if name.startswith("_") and f"_{name.lstrip('_')}".casefold() in METADATA else name
