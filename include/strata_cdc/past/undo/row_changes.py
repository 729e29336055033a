"""The changes of rows as undo needs them: each value with what its column is now, and who changed what when.
Not here: reading them (`past/table_changes.py`), statements (`steps.py`)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import ROW_FIELDS, may_be_invalid
from strata_cdc.past.undo.columns import Cell, paths_to, same_value
from strata_cdc.past.undo.literals import InexactError, Verbatim
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.definition import Column, KeyKind, TableDefinition, TableName
from strata_cdc.tables.values.constants import constant
from strata_cdc.tables.values.verbatim import constant_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.past.table_changes import TableChangeBatch
    from strata_cdc.past.timeline import ChangeSpan, TableEvent, TablePart

Image = dict[str, Cell]
"""The values of a row that are known, by the names that their columns have now."""
RowKey = tuple[Any, ...]

_FACTS = [field.name for field in ROW_FIELDS]


class ChangeOrigin(Struct, frozen=True, gc=False):
    """Who changed something: a transaction, or a statement of DDL."""

    seq: int
    row: int
    gtid: str | None
    committed_at: int
    """Microseconds UTC; 0: not known."""
    binlog_file: str | None = None
    binlog_pos: int | None = None
    what: str = ""
    """INSERT, UPDATE, DELETE, or a statement."""

    @property
    def order(self) -> tuple[int, int]:
        """Its place in the stream."""
        return self.seq, self.row

    def __str__(self) -> str:
        where = self.gtid or (
            f"{self.binlog_file} at {self.binlog_pos}" if self.binlog_file else f"transaction {self.seq}"
        )
        when = f" ({moment_text(self.committed_at)})" if self.committed_at else ""
        return f"{self.what} of {where}{when}"


def origin_of(event: TableEvent) -> ChangeOrigin:
    """Who did it."""
    position = (event.binlog_file, event.binlog_pos)
    return ChangeOrigin(event.seq, 0, event.gtid, event.committed_at, *position, event.statement or "DROP TABLE")


class LoggedChange(Struct, frozen=True, gc=False):
    """One change of one row."""

    origin: ChangeOrigin
    op: str
    before: Image
    """Empty for an insert."""
    after: Image
    """Empty for a delete. Without the columns that a partial image lacks."""
    lost: tuple[str, ...]
    """The columns that it touched and that the table does not have now, by their names of then."""
    lacks_before: frozenset[str] = frozenset()
    """The columns, by their names of now, that a partial image before the change lacks."""
    lacks_after: frozenset[str] = frozenset()
    unguarded: frozenset[str] = frozenset()
    """Columns whose value now only the server knows, and that nobody can have changed."""

    @property
    def is_partial(self) -> bool:
        """Whether the log lacks values of the row before the change."""
        return bool(self.lacks_before)


class NowTable(Struct, frozen=True):
    """The table as it is now, for which statements are written."""

    name: TableName
    definition: TableDefinition
    key: tuple[str, ...]
    """The columns that identify a row; empty if only the whole row does."""
    columns: dict[str, Column]
    """The definition's, by name."""

    @classmethod
    def from_span(cls, span: ChangeSpan) -> NowTable:
        """From the last range of a timeline."""
        columns = {column.name: column for column in span.definition.columns}
        return cls(span.name, span.definition, row_key(span.definition), columns)

    def column(self, name: str) -> Column:
        """One of its columns."""
        return self.columns[name]

    def key_of(self, image: Image, other: Image | None = None) -> RowKey | None:
        """The key of an image; None if the table has none, or if a value of it is not known.

        Args:
            other: What it lacks is the same in this one.
        """
        cells = [image.get(name) or (other or {}).get(name) for name in self.key]
        try:
            return (
                tuple(hashable(cell.as_now()) for cell in cells if cell is not None)
                if self.key and all(cells)
                else None
            )
        except InexactError:
            return None

    def keys_of(self, change: LoggedChange) -> list[RowKey]:
        """The keys that a change is about: one, or an old and a new key, as far as they are known."""
        keys = [self.key_of(change.before) if change.before else None]
        keys.append(self.key_of(change.after, change.before or None) if change.after else None)
        return [key for key in dict.fromkeys(keys) if key is not None]


def hashable(value: Any) -> Any:
    """A value of a key as a key of a dictionary."""
    return ("verbatim", value.text) if isinstance(value, Verbatim) else value


def row_key(definition: TableDefinition) -> tuple[str, ...]:
    """The columns of the primary key, else of the first unique key that has no NULL and no prefix."""
    keys = [
        key for key in definition.keys if key.kind in {KeyKind.PRIMARY, KeyKind.UNIQUE} and not key.without_overlaps
    ]
    for key in sorted(keys, key=lambda key: key.kind is not KeyKind.PRIMARY):
        columns = [None if part.column is None else definition.column(part.column) for part in key.parts]
        whole = all(part.lengths == (None,) for part in key.parts)
        if all(column is not None and not column.nullable for column in columns) and (
            whole or key.kind is KeyKind.PRIMARY
        ):
            return tuple(column.name for column in columns if column is not None)
    return ()


class VersionReader:
    """Reads the changes of one version of the table.

    Args:
        span: A range of the version.
        now: The table as it is now.
        parts: The table's timeline.
    """

    def __init__(self, span: ChangeSpan, now: ChangeSpan, parts: Sequence[TablePart]) -> None:
        self.paths = paths_to(span, now, parts)
        self._live = [(at, path.now.name, path) for at, (_, path) in enumerate(self.paths) if path is not None]
        self._gone = [(at, column.name) for at, (column, path) in enumerate(self.paths) if path is None]

    @cached_property
    def _defaults(self) -> dict[int, Any]:
        """What columns get that an INSERT does not name, as far as that is known: a MINIMAL image lacks these."""
        defaults = {ordinal: _default(column) for ordinal, (column, _) in enumerate(self.paths)}
        return {ordinal: value for ordinal, value in defaults.items() if not isinstance(value, NoFill)}

    def changes(self, batch: TableChangeBatch) -> Iterator[LoggedChange]:
        """The changes of a batch, in order."""
        table, own = batch.changes, len(self.paths)
        facts = {name: _fact(table.column(own + 1 + at)) for at, name in enumerate(_FACTS)}
        afters = [table.column(at).to_pylist() for at in range(own)]
        images = table.column(own).combine_chunks()
        befores = [column.to_pylist() for column in images.flatten()]
        for at, op in enumerate(facts["_op"]):
            origin = ChangeOrigin(
                facts["_seq"][at],
                facts["_row"][at],
                facts["_gtid"][at],
                facts["_committed_at"][at] or 0,
                facts["_binlog_file"][at],
                facts["_binlog_pos"][at],
                op.upper(),
            )
            missing, invalid = facts["_missing"][at], facts["_invalid"][at]
            if not (missing or invalid):
                yield self._whole_change(origin, op, befores, afters, at)
                continue
            names, texts = frozenset(missing or ()), dict(invalid or ())
            before = {} if op == "insert" else self._image(befores, at, "_before.", names, texts)
            after = {} if op == "delete" else self._image(afters, at, "", names, texts)
            if op == "insert" and names:
                after = self._defaults | after
            yield self._change(origin, op, before, after)

    def _whole_change(
        self, origin: ChangeOrigin, op: str, befores: list[list[Any]], afters: list[list[Any]], at: int
    ) -> LoggedChange:
        """A change whose images have all values, in columns of the lake."""
        before = (
            {} if op == "insert" else {name: Cell(path, befores[ordinal][at]) for ordinal, name, path in self._live}
        )
        after = {} if op == "delete" else {name: Cell(path, afters[ordinal][at]) for ordinal, name, path in self._live}
        lost: tuple[str, ...] = ()
        if op == "update" and self._gone:
            lost = tuple(
                name for ordinal, name in self._gone if not same_value(befores[ordinal][at], afters[ordinal][at])
            )
        return LoggedChange(origin, op, before, after, lost)

    def _change(self, origin: ChangeOrigin, op: str, before: dict[int, Any], after: dict[int, Any]) -> LoggedChange:
        lost: tuple[str, ...] = ()
        if op == "update":
            lost = tuple(
                name
                for at, name in self._gone
                if at in after and not (at in before and same_value(before[at], after[at]))
            )
        lacks = [
            frozenset() if op == without else self._absent(image)
            for without, image in (("insert", before), ("delete", after))
        ]
        return LoggedChange(origin, op, self.live(before), self.live(after), lost, *lacks)

    def _absent(self, image: dict[int, Any]) -> frozenset[str]:
        return frozenset(name for at, name, _ in self._live if at not in image)

    def live(self, image: dict[int, Any]) -> Image:
        """The values of the columns that the table has now."""
        return {name: Cell(path, image[at]) for at, name, path in self._live if at in image}

    def _image(
        self, values: list[list[Any]], at: int, prefix: str, missing: frozenset[str], invalid: dict[str, str]
    ) -> dict[int, Any]:
        values_of_row = {}
        for ordinal, (column, _) in enumerate(self.paths):
            name = f"{prefix}{column.name}"
            if name in missing:
                continue
            values_of_row[ordinal] = Verbatim(invalid[name]) if name in invalid else values[ordinal][at]
        return values_of_row


def _fact(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; times as microseconds."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def filled_value(column: Column, text: str | None) -> Any:
    """A value that MySQL prints as this text, as an image has it; None for NULL."""
    verbatim = constant_text(column, text, 1)[0].as_py() if may_be_invalid(column) else None
    return constant(column, text, 1)[0].as_py() if verbatim is None else Verbatim(verbatim)


def _default(column: Column) -> Any:
    value = fill_of(column)
    return value if isinstance(value, NoFill) else filled_value(column, value)


def moment_text(when: int) -> str:
    """A time (microseconds UTC) for people."""
    seconds, rest = divmod(when, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:06}"
