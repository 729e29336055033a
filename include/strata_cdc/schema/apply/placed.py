"""A column during an ALTER TABLE.
Not here: the steps (`alter.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.changes import WrittenColumn
    from strata_cdc.schema.model.definition import Column


class PlacedColumn(Struct):
    """A column of the new table, and the old column that it was."""

    column: Column
    old: Column | None
    """None for an added column."""
    written: WrittenColumn | None = None
    """The column as written in the statement; None if the statement does not redefine it."""
