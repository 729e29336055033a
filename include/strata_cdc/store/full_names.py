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


def split_full_name(name: str) -> tuple[str, str] | None:
    """Database and table of a full name; None where it could be that of several tables (an older version wrote so)."""
    if name.startswith("`"):
        database, _, table = name[1:].replace("``", "\0").partition("`.")
        return database.replace("\0", "`"), table.replace("\0", "``")
    database, _, table = name.partition(".")
    return None if "." in table else (database, table)
