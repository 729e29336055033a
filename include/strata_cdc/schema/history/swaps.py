"""The names that gh-ost and pt-online-schema-change give to the tables that they make for a change, and their swaps.
Not here: the effect of such a change (`lineage.py`), the proof that a name's rows are those of a copy (`copies.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from strata_cdc.schema.history.versions import StoredEntry, TableChange

_COPY: Final = re.compile(r"_(.+)_gho|_+([^_].*)_new", re.DOTALL)


def tool_of(entry: StoredEntry | TableChange) -> str | None:
    """The tool that uses the name from which an entry was renamed; None for an entry that renames nothing."""
    came_from = entry.renamed_from
    if came_from is None or came_from.database != entry.name.database:
        return None
    if came_from.table == f"_{entry.name.table}_gho":
        return "gh-ost"
    # It adds further underscores at the start while a name is used.
    return "pt-online-schema-change" if came_from.table.lstrip("_") == f"{entry.name.table}_new" else None


def copied_table(copy: TableName) -> TableName | None:
    """The table that a tool changes with a copy of this name; None for a name that no tool uses."""
    match = _COPY.fullmatch(copy.table)
    return TableName(copy.database, match[1] or match[2]) if match else None


def is_swap(renamed: TableChange, left: TableChange) -> bool:
    """Whether a table's changed copy gets its name, and the table leaves it, in one version that has both entries."""
    is_left = left.renamed_from == renamed.name and left.name in names_beside(renamed.name)
    return is_left and tool_of(renamed) is not None


def names_beside(name: TableName) -> list[TableName]:
    """Names that the tools give to a table's copy, and to the table when it is replaced."""
    endings = ("gho", "del")
    names = [TableName(name.database, f"_{name.table}_{ending}") for ending in endings]
    pt = [f"{'_' * count}{name.table}_{ending}" for ending in ("new", "old") for count in range(1, 11)]
    return [*names, *(TableName(name.database, table) for table in pt)]
