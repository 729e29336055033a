"""Which data meet which schema: the four cases, and the kinds of DDL that lie between two schemas.
Not here: what is done with such rows (`ticdc/quadrants.py` for TiCDC, `changes/decode_plans.py` for binlogs)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from strata_cdc.counted import counted
from strata_cdc.errors import Location

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from strata_cdc.errors import Crossing
    from strata_cdc.schema.model.definition import Column, TableDefinition


class Quadrant(StrEnum):
    """Whose data, committed while which schema was valid."""

    OLD_OLD = "old data, old schema"
    OLD_NEW = "old data, new schema"
    NEW_OLD = "new data, old schema"
    NEW_NEW = "new data, new schema"


class DdlKind(StrEnum):
    """A kind of DDL as far as it differs in what it does to rows, in the words of TiDB."""

    STATE = "state"
    """No DDL: the table as it was when the feed began, or when the table moved to another node."""
    CREATE_TABLE = "create table"
    DROP_TABLE = "drop table"
    DROP_DATABASE = "drop database"
    ADD_COLUMN = "add column"
    DROP_COLUMN = "drop column"
    CHANGE_COLUMN = "modify column"
    ADD_INDEX = "add index"
    """Indexes, keys, constraints."""
    TRUNCATE = "truncate table"
    RENAME_TABLE = "rename table"
    EXCHANGE_PARTITION = "exchange partition"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    PARTITIONS = "partitions"
    """Partitions are emptied or cut in another way: new ones have the place of those before."""
    MULTIPLE = "multi-schema change"
    PROPERTIES = "properties"
    """What touches no row: comments, defaults, charsets of tables, placement, TTL, TiFlash."""
    UNKNOWN = "unknown"
    """A kind that TiDB got later."""


def crossed_line(rows: int, crossing: Crossing, row: Location | None) -> str:
    """How many rows lie across a DDL, with the positions of one of them and of the DDL, as far as they are known."""
    text = f"{counted(rows, 'row')} of {crossing.quadrant}, around {crossing.ddl}"
    known = [("a row", row or Location()), ("the DDL", crossing.made_at)]
    locations = ", ".join(f"{what} at {location}" for what, location in known if location != Location())
    return f"{text}: {locations}" if locations else text


def logged_columns(definition: TableDefinition) -> tuple[tuple[object, ...], ...]:
    """What a log can show of a table's columns."""
    return tuple(_logged(column) for column in definition.columns)


def kind_between(before: Mapping[Hashable, Column], after: Mapping[Hashable, Column]) -> DdlKind:
    """The kind of DDL that makes one version of a table of another.

    Args:
        before: The columns of the older version, by what identifies each.
        after: Those of the newer one.
    """
    dropped, added = before.keys() - after.keys(), after.keys() - before.keys()
    is_changed = any(_logged(before[key]) != _logged(after[key]) for key in before.keys() & after.keys())
    if sum(map(bool, (dropped, added, is_changed))) > 1:
        return DdlKind.MULTIPLE
    if dropped or added:
        return DdlKind.DROP_COLUMN if dropped else DdlKind.ADD_COLUMN
    # Also if only their order differs.
    return DdlKind.CHANGE_COLUMN


def _logged(column: Column) -> tuple[object, ...]:
    return column.name.casefold(), column.column_type, column.nullable, column.character_set
