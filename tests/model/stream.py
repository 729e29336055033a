"""The stream of a cluster's changes: rows, each with the version under which its node wrote it, and DDL.
Not here: files of a changefeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tests.model.jobs import Kind
    from tests.model.schema import Schema
    from tests.model.store import Row, Write


class RowChange(Struct, frozen=True):
    """A committed change of a row."""

    commit_ts: int
    node: str
    schema: Schema
    """The version of the node that wrote it."""
    table: str
    part: int
    key: int
    before: Row | None
    after: Row | None

    @classmethod
    def of(cls, commit_ts: int, node: str, schema: Schema, table: str, write: Write) -> RowChange:
        return cls(commit_ts, node, schema, table, write.row.part, write.row.key, write.before, write.after)


class SchemaChange(Struct, frozen=True):
    """A DDL that is done."""

    finished_ts: int
    kind: Kind
    schema: Schema
    """What it made."""
    first_number: int
    """The first version under which nodes wrote rows as they are after it."""


class Quadrant(Struct, frozen=True):
    """Under which schema the data were written, and which schema is valid at their commit-ts."""

    is_new_data: bool
    is_new_schema: bool


class Stream:
    """Rows and DDL in the order of their timestamps."""

    def __init__(self, first: Schema) -> None:
        self.first = first
        self.changes: list[RowChange | SchemaChange] = []

    def add(self, change: RowChange | SchemaChange) -> None:
        self.changes.append(change)

    def copy(self) -> Stream:
        other = Stream(self.first)
        other.changes = list(self.changes)
        return other

    def rows(self) -> list[RowChange]:
        return [change for change in self.changes if isinstance(change, RowChange)]

    def ddl(self) -> list[SchemaChange]:
        return [change for change in self.changes if isinstance(change, SchemaChange)]


def quadrant(row: RowChange, ddl: SchemaChange) -> Quadrant:
    return Quadrant(row.schema.number >= ddl.first_number, row.commit_ts > ddl.finished_ts)


def quadrants(stream: Stream) -> set[Quadrant]:
    """Those of all rows and all DDL."""
    return {quadrant(row, ddl) for ddl in stream.ddl() for row in stream.rows()}
