"""Tables as the ledgers `verdict` and `published_interval` call them: in one text, which is no other table's.
Not here: names in lists of the version table (`schema/history/name_columns.py`)."""

from __future__ import annotations

from typing import Final

_MOST: Final = 130
"""Of the columns."""


def full_name(database: str, table: str) -> str:
    """`database.table`; the database in backticks where its end could not be told: `a.b`.`c` is not `a`.`b.c`."""
    plain = f"{database}.{table}"
    if "." not in database and "`" not in database:
        return plain
    quoted = f"`{database.replace('`', '``')}`.{table}"
    # Only where both are as long as MySQL lets them be.
    return quoted if len(quoted) <= _MOST else plain
