"""Which column of a change table takes which column of a file, where one column of MySQL's table has had several types.
Not here: committing (`commit.py`), naming them in the files (`parquet_names.py`), reading them as one (`read.py`).

The type that came first has the plain name. Another one goes on in a further column of the same Delta table, which is
called after the column and its type (`price`, `price__decimal_12_2`); a type that comes back has its column already.
Inside of `_before` the same columns have the same names. What a column goes on from is in its metadata in Delta's log,
since every name can also be that of a column of MySQL's table.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from deltalake import Field
from deltalake.schema import StructType
from msgspec import Struct

from strata.rows.arrow import BEFORE
from strata.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONTINUES = "strata.continues"
"""Key of the metadata: the column of which this one is the continuation."""


class Placement(Struct, frozen=True):
    """Where the columns of a file go."""

    names: dict[str, str]
    """Name in the file -> name in the change table, of those that differ."""
    added: tuple[Field, ...]
    """Columns that the change table has to be given first; `_before` comes with its new fields alone."""


def place_columns(published: Sequence[Field], incoming: Sequence[Field]) -> Placement:
    """Finds the column for each column of a file, by name (as MySQL compares them) and type; others are to be added.

    Args:
        published: The columns of the change table; none if there is no table yet.
        incoming: The columns of the file: the table's own, `_before` with the same ones, and ours.
    """
    before = _inside(published)
    known: dict[tuple[str, str], str] = {}
    spelled: dict[str, str] = {}
    for field in published:
        inner = before.get(field.name)
        plain = str(field.metadata.get(CONTINUES, field.name))
        spelled.setdefault(fold_name(plain), plain)
        if inner is None or inner.type == field.type:
            known.setdefault((fold_name(plain), _type_json(field)), field.name)
    taken = {_collation(name) for name in (*(field.name for field in published), *before)}
    own = [field for field in incoming if field.name != BEFORE]
    names = {field.name: known.get((fold_name(field.name), _type_json(field)), "") for field in own}
    added: dict[str, Field] = {}
    new = [field for field in own if not names[field.name]]
    # A column that can have its plain name gets it before another one is named after its type.
    for field in [field for field in new if _take(field.name, taken)]:
        names[field.name] = field.name
        added[field.name] = Field(field.name, field.type, nullable=True)
    for field in [field for field in new if not names[field.name]]:
        plain = spelled.get(fold_name(field.name), field.name)
        names[field.name] = name = _free_name(plain, field, taken)
        comment = f"goes on from {plain}: its values of type {_type_text(field)}"
        added[name] = Field(name, field.type, nullable=True, metadata={CONTINUES: plain, "comment": comment})
    for field in _added_inside(before, incoming, names, added):
        added[field.name] = field
    order = [added[name] for field in incoming if (name := names.get(field.name, field.name)) in added]
    return Placement({old: name for old, name in names.items() if old != name}, tuple(order))


def _inside(fields: Sequence[Field]) -> dict[str, Field]:
    """The fields of `_before`, by name."""
    for field in fields:
        if field.name == BEFORE and isinstance(field.type, StructType):
            return {inner.name: inner for inner in field.type.fields}
    return {}


def _added_inside(
    before: Mapping[str, Field], incoming: Sequence[Field], names: Mapping[str, str], added: Mapping[str, Field]
) -> list[Field]:
    """`_before` with what it lacks."""
    lacking = []
    for inner in _inside(incoming).values():
        name = names.get(inner.name, inner.name)
        if name not in before:
            lacking.append(added.get(name) or Field(name, inner.type, nullable=True))
    return [Field(BEFORE, StructType(lacking), nullable=True)] if lacking else []


def _take(name: str, taken: set[str]) -> bool:
    key = _collation(name)
    if key in taken:
        return False
    taken.add(key)
    return True


def _free_name(plain: str, field: Field, taken: set[str]) -> str:
    words = re.sub("[^a-z0-9]+", "_", _type_text(field)).strip("_")
    wanted = name = f"{plain}__{words}"
    number = 1
    while not _take(name, taken):
        number += 1
        name = f"{wanted}_{number}"
    return name


def _type_text(field: Field) -> str:
    """`decimal(12,2)`; of a struct or list that it is one."""
    return str(field.type.type)


def _type_json(field: Field) -> str:
    return json.dumps(json.loads(field.to_json())["type"], sort_keys=True)


def _collation(name: str) -> str:
    """Equal for names that some reader takes for one: Spark compares both cases of each character, others fold them."""
    return name.upper().casefold()
