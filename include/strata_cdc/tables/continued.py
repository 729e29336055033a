"""Which column of a change table gets which column of a file, if a column of MySQL's table has had several types.
Not here: committing (`commit.py`), naming them in the files (`parquet_names.py`), reading them as one (`read.py`).

The first type has the plain name. Values of another type are in a further column of the same table, which is named
after the column and the type (`price`, `price__decimal_12_2`). If a type comes back, its column already exists. In
`_before`, the same columns have the same names. The metadata of a column has the name of the column that it continues,
because each name can also be that of a column of MySQL's table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONTINUES = "strata.continues"
"""Key of the metadata: the column of which this one is the continuation."""

_TYPE_WORDS = {
    pa.int8().id: "byte",
    pa.int16().id: "short",
    pa.int32().id: "integer",
    pa.int64().id: "long",
    pa.float32().id: "float",
    pa.float64().id: "double",
    pa.bool_().id: "boolean",
    pa.string().id: "string",
    pa.binary().id: "binary",
    pa.date32().id: "date",
    pa.list_(pa.null()).id: "array",
    pa.struct([]).id: "struct",
    pa.map_(pa.string(), pa.string()).id: "map",
}
"""Types as Spark and Delta call them. They are in the names of published columns, so they must never change."""


class ColumnPlacement(Struct, frozen=True):
    """The columns of a table for the columns of a file."""

    names: dict[str, str]
    """Name in the file -> name in the change table, if these differ."""
    added: tuple[pa.Field, ...]
    """Columns that must be added to the change table first; `_before` has only its new fields here."""


def place_columns(published: Iterable[pa.Field], incoming: Iterable[pa.Field]) -> ColumnPlacement:
    """Finds the column for each column of a file, by name (as MySQL compares names) and type; new columns are listed.

    Args:
        published: The columns of the change table; none if there is no table yet.
        incoming: The columns of the file: the table's own, `_before` with the same ones, and Strata's; in the types
            that the table's output stores.
    """
    published, incoming = list(published), list(incoming)
    before = _inside(published)
    known: dict[str, list[pa.Field]] = {}
    spelled: dict[str, str] = {}
    for field in published:
        inner = before.get(field.name)
        plain = plain_name(field)
        spelled.setdefault(fold_name(plain), plain)
        if inner is None or inner.type == field.type:
            known.setdefault(fold_name(plain), []).append(field)
    taken = {_collation(name) for name in (*(field.name for field in published), *before)}
    own = [field for field in incoming if field.name != BEFORE]
    names = {field.name: _named(known.get(fold_name(field.name), ()), field.type) for field in own}
    added: dict[str, pa.Field] = {}
    new = [field for field in own if not names[field.name]]
    # A column that can have its plain name gets it before another column is named after its type.
    for field in [field for field in new if _take(field.name, taken)]:
        names[field.name] = field.name
        added[field.name] = pa.field(field.name, field.type)
    for field in [field for field in new if not names[field.name]]:
        plain = spelled.get(fold_name(field.name), field.name)
        kind = _type_text(field.type)
        names[field.name] = name = _free_name(plain, kind, taken)
        comment = f"goes on from {plain}: its values of type {kind}"
        added[name] = pa.field(name, field.type, metadata={CONTINUES: plain, "comment": comment})
    for field in _added_inside(before, incoming, names, added):
        added[field.name] = field
    order = [added[name] for field in incoming if (name := names.get(field.name, field.name)) in added]
    return ColumnPlacement({old: name for old, name in names.items() if old != name}, tuple(order))


def plain_name(field: pa.Field) -> str:
    """The column that a column of a change table continues, or the column's own name."""
    metadata: Mapping[bytes, bytes] = field.metadata or {}
    former = metadata.get(CONTINUES.encode())
    return str(field.name) if former is None else former.decode()


def _named(fields: Iterable[pa.Field], kind: pa.DataType) -> str:
    """The first of the columns that has this type; empty if none has it."""
    # Not with a dictionary: lists with other names for their items are equal types with different hashes (Arrow 26).
    return next((field.name for field in fields if field.type == kind), "")


def _inside(fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    """The fields of `_before`, by name."""
    for field in fields:
        if field.name == BEFORE and pa.types.is_struct(field.type):
            return {inner.name: inner for inner in field.type.fields}
    return {}


def _added_inside(
    before: Mapping[str, pa.Field],
    incoming: Iterable[pa.Field],
    names: Mapping[str, str],
    added: Mapping[str, pa.Field],
) -> list[pa.Field]:
    """`_before` with only the fields that it lacks."""
    lacking = []
    for inner in _inside(incoming).values():
        name = names.get(inner.name, inner.name)
        if name not in before:
            lacking.append(added.get(name) or pa.field(name, inner.type))
    return [pa.field(BEFORE, pa.struct(lacking))] if lacking else []


def _take(name: str, taken: set[str]) -> bool:
    key = _collation(name)
    if key in taken:
        return False
    taken.add(key)
    return True


def _free_name(plain: str, kind: str, taken: set[str]) -> str:
    words = re.sub("[^a-z0-9]+", "_", kind).strip("_")
    wanted = name = f"{plain}__{words}"
    number = 1
    while not _take(name, taken):
        number += 1
        name = f"{wanted}_{number}"
    return name


def _type_text(kind: pa.DataType) -> str:
    """For example `decimal(12,2)`; for a struct or list, only the kind."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return _TYPE_WORDS.get(kind.id, str(kind))


def _collation(name: str) -> str:
    """Equal for names that a reader may treat as equal: Spark compares each character in both cases, others fold."""
    return name.upper().casefold()
