"""What differs in tables between two points of the stream, whatever went on between them.
Not here: comparing two definitions (`schema/apply/diff.py`), each change of its own (`changes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata.schema.answers.lines import DifferenceLine
from strata.schema.answers.tables import definitions_at
from strata.schema.apply.diff import diff

if TYPE_CHECKING:
    from strata.schema.history.historian import History, StreamPosition
    from strata.schema.model.definition import TableDefinition, TableName


class TableDifference(Struct, frozen=True):
    """What differs in one table between two points; one side is None where the table is not there."""

    name: TableName
    before: TableDefinition | None
    after: TableDefinition | None

    @property
    def change(self) -> str:
        """What happened to the table as a whole."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    def texts(self) -> tuple[str, ...]:
        """The differences, a line each; `+`, `-` or `~` in front."""
        if self.before is not None and self.after is not None:
            return tuple(str(difference) for difference in diff(self.before, self.after))
        whole, sign = (self.after, "+") if self.before is None else (self.before, "-")
        return tuple(f"{sign} column {c.name} {c.column_type}" for c in whole.columns) if whole is not None else ()

    def line(self) -> DifferenceLine:
        """As `schema diff` has it."""
        return DifferenceLine(self.name.database, self.name.table, self.change, self.texts())


def differences(
    history: History, before: StreamPosition, after: StreamPosition, table: TableName | None
) -> list[TableDifference]:
    """The tables that differ, in order of name.

    Raises:
        SchemaGapError: One of them is not known at one of the points.
    """
    old, new = definitions_at(history, before, table), definitions_at(history, after, table)
    return [
        TableDifference(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
