"""The differences between two definitions of a table, as values that can be shown.
Not here: the changes that a statement requests (`schema/ddl/changes.py`), which columns were renamed
(`schema/history/identified_tables.py`): two definitions alone do not distinguish a rename from a drop and an add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.schema.model.definition import Column, Key, KeyPart, TableDefinition
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Mapping


class ColumnRemoved(Struct, frozen=True):
    """A column that is only in the older definition."""

    column: Column

    def __str__(self) -> str:
        return f"- column {self.column.name} {self.column.column_type}"


class ColumnAdded(Struct, frozen=True):
    """A column that is only in the newer definition; `after` is the column before it, None if it is the first."""

    column: Column
    after: str | None

    def __str__(self) -> str:
        where = f"after {self.after}" if self.after else "first"
        return f"+ column {self.column.name} {_described(self.column)} {where}"


class ColumnChanged(Struct, frozen=True):
    """A column of both definitions, with other facts."""

    before: Column
    after: Column

    def __str__(self) -> str:
        return f"~ column {self.before.name}: {_changed_facts(self.before, self.after)}"


class ColumnRenamed(Struct, frozen=True):
    """A column of both definitions under another name, possibly with other facts too."""

    before: Column
    after: Column

    def __str__(self) -> str:
        facts = _changed_facts(self.before, replace(self.after, name=self.before.name))
        return f"~ column {self.before.name} -> {self.after.name}" + (f": {facts}" if facts else "")


class ColumnsReordered(Struct, frozen=True):
    """The columns of both definitions have another order: all names of the newer definition."""

    order: tuple[str, ...]

    def __str__(self) -> str:
        return f"~ order of columns: {', '.join(self.order)}"


class KeyRemoved(Struct, frozen=True):
    """A key that is only in the older definition."""

    key: Key

    def __str__(self) -> str:
        return f"- key {described_key(self.key)}"


class KeyAdded(Struct, frozen=True):
    """A key that is only in the newer definition."""

    key: Key

    def __str__(self) -> str:
        return f"+ key {described_key(self.key)}"


class KeyChanged(Struct, frozen=True):
    """A key of both definitions, with other parts or of another kind."""

    before: Key
    after: Key

    def __str__(self) -> str:
        return f"~ key {described_key(self.before)} -> {described_key(self.after)}"


class TableFactChanged(Struct, frozen=True):
    """Charset, collation, engine, partitioning or row format of the table."""

    fact: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"~ {self.fact.replace('_', ' ')}: {_shown(self.before)} -> {_shown(self.after)}"


Difference = (
    ColumnRemoved
    | ColumnAdded
    | ColumnChanged
    | ColumnRenamed
    | ColumnsReordered
    | KeyRemoved
    | KeyAdded
    | KeyChanged
    | TableFactChanged
)

_SWITCHES: Final = {
    "nullable": ("NOT NULL", "NULL"),
    "invisible": ("VISIBLE", "INVISIBLE"),
    "auto_increment": ("no AUTO_INCREMENT", "AUTO_INCREMENT"),
    "default_is_expression": ("default is a constant", "default is an expression"),
    "on_update_in_doubt": ("ON UPDATE is known", "ON UPDATE is in doubt"),
}
"""The words for a fact of a column that is true or false: if it is false, and if it is true."""
_TABLE_FACTS = tuple(name for name in TableDefinition.__struct_fields__ if name not in {"columns", "keys"})


def diff(
    before: TableDefinition, after: TableDefinition, renames: Mapping[str, str] | None = None
) -> tuple[Difference, ...]:
    """The differences, columns first; applying them to `before` gives `after`.

    Args:
        before: The older definition.
        after: The newer one.
        renames: From the folded names of older columns to the names that the same columns have in the newer definition.
            Names that are in neither definition are ignored.
    """
    return (
        *_column_differences(before.columns, after.columns, renames or {}),
        *_key_differences(before.keys, after.keys),
        *(
            TableFactChanged(fact, getattr(before, fact), getattr(after, fact))
            for fact in _TABLE_FACTS
            if getattr(before, fact) != getattr(after, fact)
        ),
    )


def _column_differences(
    before: tuple[Column, ...], after: tuple[Column, ...], renames: Mapping[str, str]
) -> list[Difference]:
    new = {fold_name(column.name): column for column in after}
    old = _by_later_name(before, new, renames)
    column_differences: list[Difference] = [ColumnRemoved(column) for name, column in old.items() if name not in new]
    column_differences += [
        _changed(column, new[name]) for name, column in old.items() if name in new and column != new[name]
    ]
    order = [name for name in old if name in new]
    previous: str | None = None
    for name, column in new.items():
        if name not in old:
            column_differences.append(ColumnAdded(column, new[previous].name if previous is not None else None))
            order.insert(order.index(previous) + 1 if previous is not None else 0, name)
        previous = name
    if order != list(new):
        column_differences.append(ColumnsReordered(tuple(column.name for column in after)))
    return column_differences


def _by_later_name(
    before: tuple[Column, ...], new: Mapping[str, Column], renames: Mapping[str, str]
) -> dict[str, Column]:
    """The older columns by their folded names; renamed columns by their newer names."""
    names = [fold_name(column.name) for column in before]
    later = {name: fold_name(renames[name]) for name in names if name in renames and fold_name(renames[name]) in new}
    # If a column gets a name that another column keeps, the renames are not of these definitions.
    if len({later.get(name, name) for name in names}) < len(names):
        later = {}
    return {later.get(name, name): column for name, column in zip(names, before, strict=True)}


def _changed(before: Column, after: Column) -> Difference:
    is_renamed = fold_name(before.name) != fold_name(after.name)
    return ColumnRenamed(before, after) if is_renamed else ColumnChanged(before, after)


def _key_differences(before: tuple[Key, ...], after: tuple[Key, ...]) -> list[Difference]:
    old = {fold_name(key.name): key for key in before}
    new = {fold_name(key.name): key for key in after}
    return [
        *(KeyRemoved(key) for name, key in old.items() if name not in new),
        *(KeyChanged(key, new[name]) for name, key in old.items() if name in new and key != new[name]),
        *(KeyAdded(key) for name, key in new.items() if name not in old),
    ]


def _described(column: Column) -> str:
    text = column.column_type
    if column.collation is not None:
        text += f" collate {column.collation}"
    return text if column.nullable else f"{text} not null"


def described_key(key: Key) -> str:
    """A key in words: its name, its purpose, its parts in order."""
    return f"{key.name} {key.kind} ({', '.join(_described_part(part) for part in key.parts)})"


def _described_part(part: KeyPart) -> str:
    text = part.column if part.column is not None else f"({part.expression})"
    if part.prefix_length is not None or part.lengths_in_doubt:
        text += f"({described_lengths(part)})"
    return f"{text} desc" if part.descending else text


def facts_in_doubt(definition: TableDefinition) -> list[str]:
    """What no binlog has of keys and columns, in sentences."""
    lengths = [
        f"the length of key `{key.name}`'s part `{part.column}` is not in the binlog: {described_lengths(part)}"
        for key in definition.keys
        for part in key.parts
        if part.lengths_in_doubt
    ]
    return lengths + [
        f"whether column `{column.name}` has DEFAULT and ON UPDATE CURRENT_TIMESTAMP is not in the binlog"
        for column in definition.columns
        if column.on_update_in_doubt
    ]


def described_lengths(part: KeyPart) -> str:
    """The prefix lengths that a part can have, in words."""
    return " or ".join("all" if length is None else str(length) for length in part.lengths)


def _changed_facts(before: Column, after: Column) -> str:
    changed = [name for name in Column.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    return ", ".join(_changed_fact(name, getattr(before, name), getattr(after, name)) for name in changed)


def _changed_fact(name: str, before: object, after: object) -> str:
    if name in _SWITCHES:
        is_not, is_so = _SWITCHES[name]
        return f"{is_so if before else is_not} -> {is_so if after else is_not}"
    return f"{name.replace('_', ' ')} {_shown(before)} -> {_shown(after)}"


def _shown(value: object) -> str:
    return "none" if value is None or value == "" else str(value)
