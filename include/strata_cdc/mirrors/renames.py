"""The name of each column in a mirror's files, and what happens to the old name of a column that gets another one.
Not here: which columns a mirror has (`layout.py`), the log's form of them (`schema_text.py`), DDL (`apply_ddl.py`).

These facts are in the metadata of the column's Arrow field, so that they stay with the column everywhere.
"""

from __future__ import annotations

import uuid
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata_cdc.changes.arrow import INVALID
from strata_cdc.mirrors.layout import SEQ, mirror_schema
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.patterns import matches
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import INVALID_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import TableDefinition, TableName

IN_FILES: Final = b"delta.columnMapping.physicalName"
NUMBER: Final = b"PARQUET:field_id"
"""The name in Arrow; Delta's log has `delta.columnMapping.id`."""
SAME_AS: Final = b"strata.same_as"
"""For a former name: the column that no longer has this name, and whose value it has in every row."""


class Renames(StrEnum):
    """What happens to a mirror if its table renames a column."""

    COPY = "copy"
    """The mirror is rewritten once: any reader of Parquet can read it."""
    KEEP = "keep"
    """The files stay, and the log has the names that columns have in files (column mapping by name)."""
    ADD = "add"
    """The mirror is rewritten with the column under both names; from then on, both have its value in every row."""


def renames_by(setting: str | Mapping[str, str], *, folded: bool) -> Callable[[TableName], Renames]:
    """What the setting is for each table.

    Args:
        setting: For all tables; or by pattern: the first pattern that matches a table counts, and `copy` if none does.
        folded: Whether the server treats names that differ only in case as equal.
    """
    if isinstance(setting, str):
        return lambda _: Renames(setting)
    return lambda table: Renames(
        next((chosen for pattern, chosen in setting.items() if matches(table, (pattern,), folded=folded)), Renames.COPY)
    )


def name_in_files(field: pa.Field) -> str:
    """The name of a column in data files."""
    return str((field.metadata or {}).get(IN_FILES, field.name.encode()).decode())


def same_as(field: pa.Field) -> str:
    """The column whose value a column has: the column itself; for a former name, the column that had it."""
    return str((field.metadata or {}).get(SAME_AS, field.name.encode()).decode())


def is_former(field: pa.Field) -> bool:
    """Whether it is a name that the table no longer has."""
    return SAME_AS in (field.metadata or {})


def is_mapped(columns: pa.Schema) -> bool:
    """Whether the log has the names of the columns in files."""
    return any(IN_FILES in (field.metadata or {}) for field in columns)


def first_columns(definition: TableDefinition, renames: Renames) -> pa.Schema:
    """The columns of a mirror without files.

    Args:
        definition: The table's definition.
        renames: What happens to names. Column mapping is used from the start: a reader that does not know it fails on
            the first day, not in the night of the first RENAME.
    """
    columns = mirror_schema(definition)
    if renames is not Renames.KEEP:
        return columns
    numbers = count(1)
    return pa.schema([_mapped(field, field.name, numbers) for field in columns])


def next_columns(columns: pa.Schema, before: TableDefinition, change: TableChange, renames: Renames) -> pa.Schema:
    """The columns of a mirror after an ALTER TABLE. A column that keeps its name in files and its type stays in them.

    Args:
        columns: The current columns of the mirror.
        before: The table's definition before the ALTER.
        change: The ALTER.
        renames: What happens to names.
    """
    if change.definition is None:
        return columns
    came_from = origins_of(before, change)
    plain = mirror_schema(change.definition)
    if renames is Renames.ADD:
        plain = _with_former(plain, columns, came_from)
    # Once mapped, it stays mapped until a RENAME that needs no mapping: then it is rewritten for all readers.
    is_renamed = any(old not in (None, new) for new, old in came_from.items())
    if renames is not Renames.KEEP and (is_renamed or not is_mapped(columns)):
        return plain
    numbers = count(1 + max((_highest(field) for field in columns), default=0))
    return pa.schema([_carried(field, columns, came_from, numbers) for field in plain])


def origins_of(before: TableDefinition, change: TableChange) -> dict[str, str | None]:
    """The former name of each column of a mirror after an ALTER TABLE; None for a new column."""
    if change.definition is None:
        return {}
    columns = change.effect.columns(before, change.definition)
    origins = {column_name(new.name): None if old is None else column_name(old.name) for new, old in columns}
    return {**origins, SEQ: SEQ}


def _with_former(plain: pa.Schema, columns: pa.Schema, came_from: Mapping[str, str | None]) -> pa.Schema:
    """The columns with the former names of columns, unless other columns have these names now."""
    goes_on = {old: new for new, old in came_from.items() if old is not None}
    former = {field.name: goes_on.get(same_as(field)) for field in columns if is_former(field)}
    former |= {old: new for old, new in goes_on.items() if old != new}
    taken = {fold_name(name) for name in plain.names}
    added = [
        pa.field(name, plain.field(of).type, metadata={SAME_AS: of.encode()})
        for name, of in former.items()
        if of is not None and fold_name(name) not in taken
    ]
    own = list(plain)
    return pa.schema([*own[:-1], *added, own[-1]])


def _carried(
    field: pa.Field, columns: pa.Schema, came_from: Mapping[str, str | None], numbers: Iterator[int]
) -> pa.Field:
    old = came_from.get(field.name)
    at = -1 if old is None else columns.get_field_index(old)
    if at < 0:
        # A name that no other column has in any file, and no dropped column had.
        return _mapped(field, f"col-{uuid.uuid4()}", numbers)
    known = columns.field(at)
    if IN_FILES in (known.metadata or {}) and known.type == field.type:
        return known.with_name(field.name)
    return _mapped(field, name_in_files(known), numbers)


def with_invalid(columns: pa.Schema, before: pa.Schema | None = None, highest: int = 0) -> pa.Schema:
    """Columns of a mirror with the map of the values that these do not hold; its name in files is always the same.

    Args:
        columns: The columns of the mirror.
        before: The former columns of the mirror: the map may already have a number there.
        highest: The number that was given last, if columns have other names in files.
    """
    if INVALID_COLUMN in columns.names:
        return columns
    plain = pa.field(INVALID_COLUMN, INVALID)
    if not is_mapped(columns):
        return columns.append(plain)
    at = -1 if before is None else before.get_field_index(INVALID_COLUMN)
    if before is not None and at >= 0 and IN_FILES in (before.field(at).metadata or {}):
        return columns.append(before.field(at))
    first = 1 + max(highest, *map(_highest, columns))
    return columns.append(_mapped(plain, INVALID_COLUMN, count(first)))


def without_invalid(columns: pa.Schema) -> pa.Schema:
    """Columns of a mirror without that map."""
    return pa.schema([field for field in columns if field.name != INVALID_COLUMN])


def highest_number(properties: Mapping[str, str]) -> int:
    """The number that was given to a column last, from a mirror's properties."""
    return int(properties.get(_HIGHEST, 0))


def _mapped(field: pa.Field, name: str, numbers: Iterator[int]) -> pa.Field:
    """A field with a name in files and a number; each field inside it gets these too, under its own name."""
    metadata = {**(field.metadata or {}), IN_FILES: name.encode(), NUMBER: str(next(numbers)).encode()}
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_mapped(kind.field(at), kind.field(at).name, numbers) for at in range(kind.num_fields)])
    return pa.field(field.name, kind, metadata=metadata)


def _highest(field: pa.Field) -> int:
    kind = field.type
    inside = [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return max([int((field.metadata or {}).get(NUMBER, 0)), *map(_highest, inside)])


def mapping_properties(columns: pa.Schema, before: Mapping[str, str]) -> dict[str, str | None]:
    """The table's properties for the mapping; None for properties that it must not have.

    Args:
        columns: The columns of the mirror.
        before: Its properties so far; a number is never given twice.
    """
    if not is_mapped(columns):
        return {_MODE: None, _HIGHEST: None}
    highest = max([highest_number(before), *map(_highest, columns)])
    return {_MODE: "name", _HIGHEST: str(highest)}


_MODE: Final = "delta.columnMapping.mode"
_HIGHEST: Final = "delta.columnMapping.maxColumnId"
