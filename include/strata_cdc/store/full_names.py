"""The names of tables in the ledgers `verdict` and `published_interval`: one text, different for each table.
Not here: names in lists of the version table (`schema/history/name_columns.py`)."""

from __future__ import annotations

from typing import Final

_MOST: Final = 130
"""Characters in the ledgers' columns."""


def full_name(database: str, table: str) -> str:
    """`database.table`; the database in backticks if its end would not be clear: `a.b`.`c` is not `a`.`b.c`."""
    plain = f"{database}.{table}"
    if "." not in database and "`" not in database:
        return plain
    quoted = f"`{database.replace('`', '``')}`.{table}"
    # Only if both are as long as MySQL allows.
    return quoted if len(quoted) <= _MOST else plain


def split_full_name(name: str) -> tuple[str, str] | None:
    """Database and table of a full name; None if it could mean several tables (an older version wrote such names)."""
    if name.startswith("`"):
        database, _, table = name[1:].replace("``", "\0").partition("`.")
        return database.replace("\0", "`"), table.replace("\0", "``")
    database, _, table = name.partition(".")
    return None if "." in table else (database, table)
