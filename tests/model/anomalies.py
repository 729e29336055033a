"""What may never be: an orphan, or something missing, for any schema version that is in use.
Not here: how it comes about (`cluster.py`)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from tests.model.histories import entry_text
from tests.model.store import entry_of, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.cluster import Cluster
    from tests.model.schema import Schema
    from tests.model.store import Store


class AnomalyKind(Enum):
    """F1's two kinds, orphan and missing. In F1, what a version does not know is an orphan, too."""

    ORPHAN = "orphan"
    UNKNOWN = "not known"
    MISSING = "missing"


class Anomaly(Struct, frozen=True):
    """What is wrong, for nodes with this schema version."""

    kind: AnomalyKind
    version: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}, as version {self.version} sees it: {self.text}"


def anomalies(cluster: Cluster) -> Iterator[Anomaly]:
    """All that is wrong with the store for the versions in use."""
    for schema in cluster.schemas_in_use():
        for kind, text in _wrong(schema, cluster.store):
            yield Anomaly(kind, schema.number, text)


def _wrong(schema: Schema, store: Store) -> Iterator[tuple[AnomalyKind, str]]:
    yield from ((AnomalyKind.UNKNOWN, text) for text in _unknown_entries(schema, store))
    yield from ((AnomalyKind.UNKNOWN, text) for text in _unknown_values(schema, store))
    yield from ((AnomalyKind.ORPHAN, text) for text in _orphan_entries(schema, store))
    yield from ((AnomalyKind.ORPHAN, text) for text in _misplaced_rows(schema, store))
    yield from ((AnomalyKind.MISSING, text) for text in _missing_entries(schema, store))
    yield from ((AnomalyKind.MISSING, text) for text in _missing_values(schema, store))


def _unknown_entries(schema: Schema, store: Store) -> Iterator[str]:
    for entry in store.entries:
        index = schema.elements.get(entry.index)
        if index is None:
            # What lies in a range that the version does not know is out of its reach.
            if entry.index not in store.dropped and entry.part in schema.elements:
                yield f"no index has the entry {entry_text(entry)}"
        elif index.is_global and entry.part not in schema.elements:
            yield f"the entry {entry_text(entry, index)} points to a partition that is not known"


def _orphan_entries(schema: Schema, store: Store) -> Iterator[str]:
    for entry in store.entries:
        index = schema.elements.get(entry.index)
        if index is None or entry.part not in schema.elements:
            continue
        if entry.row not in store.rows:
            yield f"the entry {entry_text(entry, index)} points to no row"
        elif entry_of(schema, index, entry.row, store.rows[entry.row]) != entry:
            yield f"the entry {entry_text(entry, index)} points to a row with another value"


def _unknown_values(schema: Schema, store: Store) -> Iterator[str]:
    known = schema.elements.keys() | store.dropped
    for row, values in store.rows.items():
        if row.part in schema.elements and not values.keys() <= known:
            yield f"row {row.key} has a value of a column that is not known"


def _misplaced_rows(schema: Schema, store: Store) -> Iterator[str]:
    parts = {part.id: part for part in schema.public_parts}
    for row in store.rows:
        part = parts.get(row.part)
        if part and not part.low <= row.key < part.high:
            yield f"row {row.key} is in the partition of {part.low} to {part.high - 1}"


def _missing_entries(schema: Schema, store: Store) -> Iterator[str]:
    parts = {part.id for part in schema.public_parts}
    for index in schema.public_indexes:
        for row, values in store.rows.items():
            entry = entry_of(schema, index, row, values)
            if row.part in parts and entry and entry not in store.entries:
                yield f"{index.name} has no entry for row {row.key}"


def _missing_values(schema: Schema, store: Store) -> Iterator[str]:
    parts = {part.id for part in schema.public_parts}
    for row, values in store.rows.items():
        if row.part not in parts:
            continue
        for column in schema.public_columns:
            value = stored(schema, column, values) if column.default is not None else values.get(column.id)
            truth = store.truths[row].get(column.lineage, column.default)
            if value is None:
                yield f"row {row.key} has no value of {column.name}"
            elif truth is not None and value != column.cast(truth):
                yield f"row {row.key} has lost its value of {column.name}"
