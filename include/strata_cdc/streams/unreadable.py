"""Rows with a value that cannot be read: their position in the stream, what could be read of them, and what could not.
Not here: finding such values (`changes/faults.py`), the lines of readable rows (`writing.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE, ChangeColumns
from strata_cdc.changes.port import VALUE_FAULTS, ChangeBatch, placed
from strata_cdc.errors import UndecodableTextError, UnreadableValueError
from strata_cdc.schema.model.types import LABELLED, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from strata_cdc.changes.jsonl import TableLines
    from strata_cdc.changes.port import QuarantinedRows
    from strata_cdc.errors import StrataError
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.positions import Mask

_IN_BEFORE = f"{BEFORE}."


class UnreadableValue(Struct, frozen=True):
    """A value that cannot be read."""

    image: str
    """`before` or `after`."""
    column: str
    error: str
    """Name of the error's class."""
    reason: str
    """It does not contain the value."""
    verbatim: str | int
    """What the binlog has: base64 of its bytes, or the number of a label of ENUM or SET."""

    def shown(self) -> dict[str, Any]:
        """Returns the value as a line has it."""
        kind = "bytes" if isinstance(self.verbatim, str) else "number"
        shown = {"image": self.image, "column": self.column, "error": self.error, "reason": self.reason}
        return {**shown, kind: self.verbatim}


class UnreadableRow(Struct, frozen=True):
    """What is known of one row."""

    seq: int
    row: int
    """Ordinal of the row in its transaction, from 0."""
    op: str
    before: dict[str, Any] | None
    """Without the values that cannot be read."""
    after: dict[str, Any] | None
    json_diffs: dict[str, str]
    values: tuple[UnreadableValue, ...]
    """The values that cannot be read, at least one unless it is set aside as a whole."""
    file: str
    """The server's binlog file; `offset` is the position of the event in it (bytes)."""
    offset: int
    error: str = ""
    """Name of the error's class, if the row is set aside as a whole; then there may be no such values."""
    reason: str = ""
    """Why it is."""

    def shown(self) -> dict[str, Any]:
        """Returns what a line has as `unreadable`."""
        whole = {"error": self.error, "reason": self.reason} if self.error else {}
        diffs = {"json_diffs": self.json_diffs} if self.json_diffs else {}
        images = {"op": self.op, "before": self.before, "after": self.after, **diffs}
        values = [value.shown() for value in self.values]
        return {"values": values, **whole, **images, "file": self.file, "offset": self.offset}


class UnreadableRows(Struct, frozen=True):
    """Changes of one table, in stream order, each with a value that cannot be read."""

    table: TableName
    version_id: int | None
    definition: TableDefinition
    batch: pa.RecordBatch
    """As in a `ChangeBatch`, with NULL for each value that cannot be read: a NULL here may stand for another value."""
    faults: pa.Array
    """For each row, what cannot be read, as `VALUE_FAULTS`."""
    aside: StrataError | None = None
    """Why the rows are set aside as a whole, whatever their values are."""

    @property
    def kind(self) -> tuple[TableName, int | None, int]:
        """As in a `ChangeBatch`."""
        return self.table, self.version_id, id(self.definition)

    @classmethod
    def from_quarantined(cls, quarantined: QuarantinedRows) -> UnreadableRows:
        """Makes it of rows that were quarantined because of their values."""
        if quarantined.faults is None:
            raise quarantined.error
        rows, faults = quarantined.rows, quarantined.faults
        aside = None if len(faults.flatten()) else quarantined.error
        return cls(quarantined.table, quarantined.version_id, quarantined.definition, rows, faults, aside)

    def chosen(self, keep: Mask) -> UnreadableRows:
        """Returns some of the rows."""
        return replace(self, batch=self.batch.filter(keep), faults=self.faults.filter(pa.array(keep)))

    def of_columns(self, columns: Collection[str]) -> UnreadableRows:
        """Returns the same rows with only the faults of some columns (names in lower case); a row may then have no
        fault."""
        faults = [
            [item for item in each if item["column"].removeprefix(_IN_BEFORE).casefold() in columns]
            for each in self.faults.to_pylist()
        ]
        return replace(self, faults=pa.array(faults, VALUE_FAULTS))

    @property
    def is_readable(self) -> Mask:
        """For each row, whether it has no fault."""
        mask: Mask = pc.list_value_length(self.faults).to_numpy() == 0
        return mask & (self.aside is None)

    def error(self) -> StrataError:
        """Returns why the first of the rows cannot be read, with its position."""
        if self.aside is not None:
            return placed(self.aside, self.batch)
        first = self.faults[0].as_py()[0]
        kind = UndecodableTextError if first["error"] == UndecodableTextError.__name__ else UnreadableValueError
        return placed(kind(f"column {first['column']}: {first['reason']}", table=str(self.table)), self.batch)

    def as_changes(self) -> ChangeBatch:
        """Returns the rows as changes. No row may have a fault: `of_columns` has removed those of unwanted columns."""
        return ChangeBatch(self.table, self.version_id, self.definition, self.batch)

    def rows(
        self, lines: TableLines, values: Mapping[str, Callable[[pa.Array], list[Any]]] | None = None
    ) -> Iterator[UnreadableRow]:
        """Yields the rows one by one.

        Args:
            lines: The lines of its table and definition.
            values: How to convert each column's values, by the column's name; None: as in JSON.
        """
        whole = ("", "") if self.aside is None else (type(self.aside).__name__, self.aside.message)
        columns = ChangeColumns(self.batch)
        names = ("_seq", "_row", "_op", "_invalid", "_binlog_file", "_binlog_pos")
        facts = (columns.fact(name).to_pylist() for name in names)
        images = zip(*lines.images(self.batch, values), self.faults.to_pylist(), strict=True)
        for (before, after, diffs, faults), (seq, row, op, invalid, file, offset) in zip(
            images, zip(*facts, strict=True), strict=True
        ):
            unreadable = tuple(self._value(fault, dict(invalid)) for fault in faults)
            for value in unreadable:
                image = before if value.image == "before" else after
                (image or {}).pop(value.column, None)
                if value.image == "after":
                    diffs.pop(value.column, None)
            yield UnreadableRow(seq, row, op, before, after, diffs, unreadable, file, offset, *whole)

    def _value(self, fault: dict[str, str], invalid: dict[str, str]) -> UnreadableValue:
        name, verbatim = fault["column"], invalid[fault["column"]]
        image = "before" if name.startswith(_IN_BEFORE) else "after"
        column = name.removeprefix(_IN_BEFORE)
        own_column = self.definition.column(column)
        is_label = own_column is not None and parse_column_type(own_column.column_type).kind in LABELLED
        return UnreadableValue(image, column, fault["error"], fault["reason"], int(verbatim) if is_label else verbatim)
