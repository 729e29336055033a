"""The keys of a table that stay after an ALTER TABLE, with their parts.
Not here: keys that it adds (`keys.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.apply.keys import prefix_of
from strata_cdc.schema.apply.limits import CAN_BE_CUT
from strata_cdc.schema.apply.widths import characters_of, key_length, label_bytes
from strata_cdc.schema.ddl.changes import DropConstraint, DropKey, RenameKey, SetKeyVisibility
from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.model.definition import Key, KeyKind, KeyPart, TableDefinition
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import BLOBS, LABELLED, SPATIAL, TEXTS, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.apply.placed import PlacedColumn
    from strata_cdc.schema.ddl.changes import AlterStep
    from strata_cdc.schema.model.definition import Column
    from strata_cdc.schema.model.types import ColumnType

_OF_PERIOD = 2
"""Columns of a period in a key WITHOUT OVERLAPS, which alone are no key."""
_UNIQUE = frozenset({KeyKind.PRIMARY, KeyKind.UNIQUE})


def surviving_keys(
    before: TableDefinition, steps: Sequence[AlterStep], placed: Sequence[PlacedColumn], *, mariadb: bool
) -> list[Key]:
    """The keys that are left, with the new names of their columns; a key whose columns are all dropped is dropped too.

    Raises:
        DdlError: The statement drops a key that does not exist.
    """
    known = list(before.keys)
    columns = {fold_name(column.name): column for column in before.columns}
    dropped = _dropped_names(known, steps)
    keys = []
    for key in known:
        if fold_name(key.name) in dropped:
            continue
        parts = _Parts(columns, placed, mariadb).parts_of(key)
        if len(parts) > (_OF_PERIOD if key.without_overlaps else 0):
            keys.append(_changed(key if parts == key.parts else replace(key, parts=parts), steps))
    return keys


def _dropped_names(keys: list[Key], steps: Sequence[AlterStep]) -> set[str]:
    names = {fold_name(key.name): key for key in keys}
    dropped = set()
    for step in steps:
        if isinstance(step, DropKey):
            if fold_name(step.name) not in names:
                raise DdlError(f"key {step.name}, which is dropped, is not in the table")
            dropped.add(fold_name(step.name))
        elif isinstance(step, DropConstraint):
            key = names.get(fold_name(step.name))
            if key is not None and key.kind in _UNIQUE:
                dropped.add(fold_name(step.name))
    return dropped


def _changed(key: Key, steps: Sequence[AlterStep]) -> Key:
    name = fold_name(key.name)
    for step in steps:
        if isinstance(step, RenameKey) and fold_name(step.old) == name:
            key = replace(key, name=step.new, generated=False)
        elif isinstance(step, SetKeyVisibility) and fold_name(step.name) in {name, fold_name(key.name)}:
            key = replace(key, invisible=step.invisible)
    return key


class _Parts(Struct, frozen=True):
    """The parts of keys after the columns have changed."""

    before: dict[str, Column]
    """The old columns, by folded name."""
    placed: Sequence[PlacedColumn]
    mariadb: bool

    def parts_of(self, key: Key) -> tuple[KeyPart, ...]:
        """The parts that are left."""
        return tuple(part for old in key.parts if (part := self._surviving(old)) is not None)

    def _surviving(self, part: KeyPart) -> KeyPart | None:
        """The part on the column that replaced its column: by former name, or by name for an added column."""
        if part.column is None:
            return part
        name = fold_name(part.column)
        for placed in self.placed:
            if fold_name(placed.old.name if placed.old is not None else placed.column.name) == name:
                if placed.old is placed.column:
                    return part
                kept = (self._kept_length(length, placed, self.before[name]) for length in part.lengths)
                return replace(part, column=placed.column.name).with_lengths(kept)
        return None

    def _kept_length(self, length: int | None, placed: PlacedColumn, before: Column) -> int | None:
        if placed.old is not None:
            # To MariaDB a key on a whole column stays one, whatever type the column gets.
            return None if length is None and self.mariadb else _prefix(length, placed.old, placed.column)
        # A column is dropped and added again: the key keeps its length, as a prefix of the new column.
        return prefix_of(placed.column, length or key_length(before), mariadb=self.mariadb)


def _prefix(length: int | None, old: Column, new: Column) -> int | None:
    """The length of an indexed prefix; None if the new type cannot have a prefix, or is not longer than it."""
    if old is new:
        return length
    before, after = parse_column_type(old.column_type), parse_column_type(new.column_type)
    if length is None:
        length = _length_of_labels(old, before)
        if length is None:
            return None
    if before.kind in SPATIAL or after.kind in SPATIAL:
        return length
    if before.kind not in CAN_BE_CUT | LABELLED or after.kind not in CAN_BE_CUT:
        return None
    longest = None if after.kind in TEXTS | BLOBS else after.length
    return None if longest is not None and longest <= length else length


def _length_of_labels(column: Column, column_type: ColumnType) -> int | None:
    """The prefix that a key on a whole ENUM or SET becomes on a text: its bytes, cut to whole characters. None if the
    labels are exactly that long, because then the server treats the key as one on the whole column
    (`prepare_key_column`)."""
    if column_type.kind not in LABELLED:
        return None
    wide = CHARSETS[column.character_set].max_bytes if column.character_set is not None else 1
    length = label_bytes(column_type)
    return None if characters_of(column) * wide == length else length // wide or None
