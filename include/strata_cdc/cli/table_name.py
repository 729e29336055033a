"""The name of one table as users write it.
Not here: patterns, which mean many (`schema/model/patterns.py`)."""

from __future__ import annotations

from strata_cdc.errors import Usage
from strata_cdc.schema.history.name_columns import name_from_text
from strata_cdc.schema.model.definition import TableName


def table_name(text: str) -> TableName:
    """A table, from `database.table`, or in backticks: without backticks, the database is the part before the first
    dot.

    Raises:
        Usage: The text is something else.
    """
    try:
        name = name_from_text(text)
    except ValueError:
        name = TableName("", "")
    if not name.database or not name.table:
        raise Usage(
            f"{text!r} is not a table",
            remedy="Write it as database.table; where the database's name has a dot, as `database`.`table`.",
        )
    return name
