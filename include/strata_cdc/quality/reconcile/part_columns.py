"""By which columns the rows of a table can be divided into parts, so that all changes of a row lie in its part.
Not here: putting them there (`parts.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from strata_cdc.changes.arrow import arrow_type, is_calendar
from strata_cdc.mirrors.layout import key_columns
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.definition import Column
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import column_of_verbatim, exact_names

if TYPE_CHECKING:
    from strata_cdc.quality.reconcile.past import TablePast
    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import TableDefinition

Fill = tuple[Column, Any]
Defaults = Mapping[str, Mapping[int, Fill]]
"""Column -> version -> what an insert without a value of it has put there: the column, with its default; not NULL."""

_PLAIN = frozenset({"varchar", "text", "tinytext", "mediumtext", "longtext", "tinyint", "smallint", "mediumint", "int"})
_PLAIN_TOO = frozenset({"bigint", "varbinary", "blob", "tinyblob", "mediumblob", "longblob", "float", "double", "date"})
"""Types of which a value stays the same when a column gets another length: others are cut, padded or rounded."""


def row_columns(definition: TableDefinition) -> tuple[str, ...]:
    """Columns that name a row, as the change table calls them: of a table without a key, those of which equal values
    have equal bytes."""
    key = key_columns(definition)
    return exact_names(
        definition, key or [column_name(column.name) for column in definition.columns if _is_simple(column)]
    )


def part_columns(past: TablePast) -> tuple[str, ...]:
    """Columns that name a row, or are among those that do, in all versions of a table, and that no DDL has changed;
    none if there are none. Rows that are the same row in any version have the same values there."""
    versions = [change for change in past.table_changes if change.definition is not None]
    if past.definition is None and not versions:
        return ()
    last = past.definition or versions[-1].definition
    names = row_columns(last) if last is not None else ()
    return tuple(
        name for name in names if all(_keeps(change, name, last, change is versions[0]) for change in versions)
    )


def defaults_of(past: TablePast, columns: tuple[str, ...]) -> Defaults:
    """What inserts without a value of some columns have put there, in each version."""
    defaults: dict[str, dict[int, Fill]] = {}
    for change in past.table_changes:
        for column in change.definition.columns if change.definition is not None else ():
            value = fill_of(column) if column_name(column.name) in columns else None
            is_zero = value is None and is_calendar(column) and not column.nullable
            if (value is not None or is_zero) and not isinstance(value, NoFill):
                defaults.setdefault(column_name(column.name), {})[change.version_id] = column, value
    return defaults


def _keeps(change: TableChange, name: str, last: TableDefinition | None, is_first: bool) -> bool:  # noqa: FBT001  of its caller
    """Whether a version has a column as the last one has it, and names rows by it."""
    of = column_of_verbatim(name)
    name = name if of is None else column_name(of)
    then, now = (_column(definition, name) for definition in (change.definition, last))
    if change.definition is None or then is None or now is None or name not in row_columns(change.definition):
        return False
    if arrow_type(then) != arrow_type(now) or then.generated != now.generated:
        return False
    if of is not None and then.character_set != now.character_set:
        return False
    if not is_first and name in {*map(column_name, change.effect.added), *map(column_name, change.effect.renamed)}:
        return False
    words = {column.column_type.partition("(")[0].partition(" ")[0] for column in (then, now)}
    return then.column_type == now.column_type or (len(words) == 1 and words <= (_PLAIN | _PLAIN_TOO))


def _column(definition: TableDefinition | None, name: str) -> Column | None:
    columns = () if definition is None else definition.columns
    return next((column for column in columns if column_name(column.name) == name), None)


def _is_simple(column: Column) -> bool:
    """Whether a hash of its value is the value's: partial updates of JSON have no value, and composed values differ by
    how they lie in memory."""
    kind = arrow_type(column)
    return column.column_type != "json" and not (pa.types.is_nested(kind) or pa.types.is_floating(kind))
