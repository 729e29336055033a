"""The text of a view, and what decides what the text means.
Not here: reading it from a statement (`schema/ddl/statements.py`), what its query means (`dialects/queries/`)."""

from __future__ import annotations

from msgspec import Struct


class ViewDefinition(Struct, frozen=True):
    """A view as it was made, or as its server prints it."""

    query: str
    """Its SELECT, without WITH CHECK OPTION."""
    columns: tuple[str, ...] = ()
    """Names of its columns; empty if they are those of the query."""
    database: str = ""
    """The database of tables that the query names without one."""
    sql_mode: int = 0
    """Under which the query was read."""
    collation: str | None = None
    """Of text literals; None if it is not known."""
    made_at: int = 0
    """Ordinal of the transaction that made it: `*` and names of columns mean what they meant then."""
    is_printed: bool = False
    """Whether a server printed it: every column has its table, every table its database, and there is no `*`."""
