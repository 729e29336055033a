"""Tables that are not known, and row events that have their definitions: a TABLE_MAP with FULL metadata
(`binlog_row_metadata`) closes a gap without a server.
Not here: maps without names (`changes/physical.py`), storing the definition (`track.py`)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.flavour import Vendor
from strata_cdc.schema.apply.labels import hidden_bytes, shown_label
from strata_cdc.schema.history.versions import EVERY_TABLE, TableChange, every_table_of
from strata_cdc.schema.model.charsets import CHARSETS, COLLATION_NAMES, charset_of_collation
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.schema.model.logged_types import type_logged_as
from strata_cdc.schema.model.types import GEOMETRIES, LABELLED, SPATIAL, ColumnType, Family, TypeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

    from strata_cdc.binlog.events.model import TableMap
    from strata_cdc.schema.replay.stored_catalog import Replay
    from strata_cdc.schema.tracker.stream import TrackedTransaction

_PATIENCE: Final = 16
_LONGEST_PAUSE: Final = 1000
"""Number of transactions."""


class UnknownTables:
    """Closes gaps of tables whose row events have the names of columns (`binlog_row_metadata=FULL`).

    With MINIMAL, a setting of the server, they have no names: then fewer and fewer transactions are checked.
    """

    def __init__(self, stored: Callable[[], Set[TableName]], exclude: Set[str]) -> None:
        """Begins with the state of the store.

        Args:
            stored: Gives the tables that have had a gap, whether they are known now or not. It looks at all versions of
                the source, so it is called by the first transaction with rows; most runs see none.
            exclude: Databases that do not belong to users.
        """
        self._stored = stored
        self._exclude = exclude
        self._looks_again_at = 0
        self._fruitless = 0

    @cached_property
    def _names(self) -> set[TableName]:
        return set(self._stored())

    def concern(self, names: Iterable[TableName], replay: Replay) -> bool:
        """Whether any of these tables is not known, so that its row events may help."""
        return bool(self._names) and any(self._is_unknown(name, replay) for name in names)

    def add(self, names: Iterable[TableName]) -> None:
        """Marks tables as not known from here on."""
        self._names.update(names)

    def made_known_by(self, transaction: TrackedTransaction, replay: Replay, seq: int) -> tuple[TableChange, ...]:
        """The tables that become known by a transaction's TABLE_MAPs; they are set in `replay`."""
        if not self._names or seq < self._looks_again_at:
            return ()
        unknown = {name for name in transaction.tables if self._is_unknown(name, replay)}
        changes: dict[TableName, TableChange] = {}
        for table_map in transaction.table_maps if unknown else ():
            name = TableName(table_map.database, table_map.table)
            if name not in unknown or name in changes:
                continue
            definition = definition_from_map(table_map)
            if definition is None:
                self._fruitless += 1
                self._looks_again_at = seq + min(self._fruitless // _PATIENCE, _LONGEST_PAUSE)
                break
            changes[name] = TableChange(name, definition)
        for entry in changes.values():
            replay.put_table(entry)
        return tuple(changes.values())

    def _is_unknown(self, name: TableName, replay: Replay) -> bool:
        if name.database in self._exclude:
            return False
        wide = {name, every_table_of(name.database), EVERY_TABLE}
        return not self._names.isdisjoint(wide) and replay.state(name).gap is not None


def definition_from_map(table_map: TableMap) -> TableDefinition | None:
    """The table's columns and primary key; None if the map does not name the columns, or if a part is not understood.
    None of MariaDB's maps says enough: UUID, addresses and vectors are bytes there, and rows of a versioned table or of
    a sequence look like all others.

    It has no defaults, no comments, no other keys and no display widths: rows need none of them.
    """
    if table_map.names is None or table_map.vendor is Vendor.MARIADB:
        return None
    try:
        columns = tuple(_column(table_map, at) for at in range(len(table_map.types)))
    except (DdlError, LookupError):
        return None
    parts = tuple(KeyPart(columns[at].name) for at in table_map.primary_key or ())
    return TableDefinition(columns, (Key("PRIMARY", KeyKind.PRIMARY, parts),) if parts else ())


def _column(table_map: TableMap, at: int) -> Column:
    collation = table_map.collations[at] if table_map.collations else 0
    name = COLLATION_NAMES[collation] if collation else "binary"
    charset = charset_of_collation(name)
    labels = table_map.labels[at] if table_map.labels else None
    column_type = _type(table_map, at, charset, labels)
    is_text = charset != "binary" and not column_type.kind.facts.has_idle_charset
    return Column(
        (table_map.names or ())[at],
        column_type.text,
        nullable=table_map.nullable[at],
        character_set=charset if is_text else None,
        collation=name if is_text else None,
        invisible=table_map.visible is not None and not table_map.visible[at],
        label_bytes=hidden_bytes(labels, charset) if labels is not None else None,
    )


def _type(table_map: TableMap, at: int, charset: str, labels: tuple[bytes, ...] | None) -> ColumnType:
    """The type of a column.

    Raises:
        LookupError: Rows cannot have this type, or its labels, dimensions or geometry are not in the map.
        DdlError: Labels that cannot be shown.
    """
    code, metadata = table_map.types[at], table_map.metadata[at]
    is_text = charset != "binary"
    column_type = type_logged_as(code, metadata, is_text=is_text, wide=CHARSETS[charset].max_bytes)
    if column_type.kind in LABELLED:
        if labels is None:
            raise KeyError("no labels")
        return replace(column_type, labels=tuple(shown_label(label, charset) for label in labels))
    if column_type.kind.facts.family is Family.VECTOR:
        return replace(column_type, length=_ordinal(table_map.vector_dimensions, table_map, at))
    if column_type.kind in SPATIAL:
        return ColumnType(GEOMETRIES[_ordinal(table_map.geometry_types, table_map, at)])
    return replace(column_type, unsigned=_is_unsigned(table_map, at) and column_type.kind is not TypeKind.YEAR)


def _is_unsigned(table_map: TableMap, at: int) -> bool:
    return table_map.unsigned is not None and table_map.unsigned[at]


def _ordinal(given: tuple[int, ...] | None, table_map: TableMap, at: int) -> int:
    """The value for a column, from a list that has only the columns of its type."""
    return (given or ())[table_map.types[:at].count(table_map.types[at])]
