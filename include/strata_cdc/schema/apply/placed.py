"""A column on its way through an ALTER TABLE.
Not here: the way itself (`alter.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.changes import WrittenColumn
    from strata_cdc.schema.model.definition import Column


class Placed(Struct):
    """A column of the new table, and what it was before."""

    column: Column
    old: Column | None
    """None for an added column."""
    written: WrittenColumn | None = None
    """What the statement says of it; None if it is left as it was."""
