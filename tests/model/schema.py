"""A schema version of the model: columns, indexes and partitions, each in a state that says what a node may do to it.
Not here: how a DDL leads from version to version (`jobs.py`), what is stored (`store.py`)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(Enum):
    """The states of F1 (Rae et al., VLDB 2013, section 3), with those that TiDB adds, by TiDB's names."""

    NONE = "absent"
    DELETE_ONLY = "delete-only"
    WRITE_ONLY = "write-only"
    WRITE_REORGANISATION = "write-reorganisation"
    PUBLIC = "public"
    DELETE_REORGANISATION = "delete-reorganisation"
    REPLICA_ONLY = "replica-only"

    def __init__(self, label: str) -> None:
        self.label = label
        self.reads = label == "public"
        self.writes = label in {"write-only", "write-reorganisation", "public"}


class Column(Struct, frozen=True):
    """A column. The key of the table is none of these: it never changes."""

    id: int
    name: str
    state: State
    lineage: int
    """What users know as one column: the old and the new column of MODIFY COLUMN have the same."""
    default: int | None = None
    """What a row without a stored value has; None: each row has to have a value."""
    is_text: bool = False

    def cast(self, value: int | str) -> int | str:
        """A value of this lineage as this column stores it."""
        return str(value) if self.is_text else int(value)


class Index(Struct, frozen=True):
    """An index over one column."""

    id: int
    name: str
    state: State
    column: int
    is_global: bool = False
    """Whether it has the rows of all partitions; the entries of another index are deleted with their partition."""


class Part(Struct, frozen=True):
    """What rows are stored in, by its physical id: a partition, or a table without partitions."""

    id: int
    name: str
    state: State
    table: str = "t"
    low: int = 0
    high: int = 1_000
    """The keys that belong there: from `low` on, below `high`."""
    accepts: tuple[int, int] | None = None
    """A narrower range to which writes are held while the part is exchanged."""

    def takes(self, key: int) -> bool:
        low, high = self.accepts or (self.low, self.high)
        return low <= key < high


Element = Column | Index | Part


class Schema:
    """All elements of one schema version, by id; elements in state NONE are not there."""

    def __init__(self, number: int, elements: Mapping[int, Element]) -> None:
        self.number = number
        self.elements = {key: element for key, element in elements.items() if element.state is not State.NONE}
        self.columns = [element for element in self.elements.values() if isinstance(element, Column)]
        self.indexes = [element for element in self.elements.values() if isinstance(element, Index)]
        self.parts = [element for element in self.elements.values() if isinstance(element, Part)]
        self.public_columns = [column for column in self.columns if column.state.reads]
        self.public_indexes = [index for index in self.indexes if index.state.reads]
        self.public_parts = [part for part in self.parts if part.state.reads]
        self.readable = {column.lineage: column for column in self.public_columns}

    def next(self, changes: Mapping[int, Element]) -> Schema:
        return Schema(self.number + 1, {**self.elements, **changes})

    def part_of(self, table: str, key: int) -> Part | None:
        """Where a row of a table belongs; None: no partition that may be written has its key."""
        holders = (part for part in self.public_parts if part.table == table and part.low <= key < part.high)
        return next(holders, None)
