"""Batches as JSON lines, one line for each row change, in stream order.
Not here: opening the output, the command (`cli/decode.py`)."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.schema.model.types import INTEGERS, SPATIAL, ColumnType, Family, TypeKind, kinds_of, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from strata_cdc.schema.model.definition import TableDefinition, TableName

    Value = Callable[[pa.Array], list[Any]]


class JsonLines:
    """Puts the rows of many batches into one order and writes a line for each.

    Batches come table by table; `write` keeps their rows until `drain` is called, when no earlier rows can follow.
    """

    def __init__(self) -> None:
        self._held: list[tuple[int, int, str]] = []
        self._tables: dict[tuple[TableName, int], TableLines] = {}

    def write(self, table: TableName, definition: TableDefinition, batch: pa.RecordBatch, **extra: str) -> None:
        """Takes the rows of a batch of `definition`'s columns; `extra` fields go into each line."""
        key = (table, id(definition))
        known = self._tables.get(key)
        if known is None:
            known = self._tables[key] = TableLines(table, definition)
        self._held += known.lines(batch, extra)

    def drain(self) -> Iterator[str]:
        """The lines of all kept rows, in stream order, without line ends."""
        held, self._held = self._held, []
        held.sort()
        return (line for _, _, line in held)


class TableLines:
    """The lines of one version of a table, as JSON values."""

    def __init__(self, table: TableName, definition: TableDefinition) -> None:
        """Takes the definition of its batches, and keeps it: as long as this object is referenced, no other definition
        gets the same `id`."""
        self._table, self._definition = table, definition
        self._documents = {
            column.name for column in definition.columns if parse_column_type(column.column_type).kind is TypeKind.JSON
        }
        self._values = {column.name: _values_of(parse_column_type(column.column_type)) for column in definition.columns}

    def lines(self, batch: pa.RecordBatch, extra: dict[str, str]) -> Iterator[tuple[int, int, str]]:
        """The ordinals of transaction and row, and the line, of each row of a batch; it ends with `extra`."""
        for line in self.objects(batch):
            diff = line.pop("json_diffs", None)
            line.update(extra)
            if diff:
                line["json_diffs"] = diff
            yield line["seq"], line["row"], json.dumps(line, ensure_ascii=False)

    def objects(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        """The same, before they are written as text."""
        columns = ChangeColumns(batch)
        facts = (columns.fact(name).to_pylist() for name in ("_gtid", "_seq", "_row", "_op"))
        for gtid, seq, row, op, old, new, diff in zip(*facts, *self.images(batch), strict=True):
            line = {"gtid": gtid, "seq": seq, "row": row, "database": self._table.database, "table": self._table.table}
            line |= {"op": op, "before": old, "after": new}
            if diff:
                line["json_diffs"] = diff
            yield line

    def images(
        self, batch: pa.RecordBatch, values: Mapping[str, Value] | None = None
    ) -> tuple[list[dict[str, Any] | None], list[dict[str, Any] | None], list[dict[str, str]]]:
        """Per row the image before and after the change, and the changes of documents that the log does not have.

        Args:
            batch: Of the definition's columns.
            values: The functions that convert each column's values, by the column's name; None: to JSON values.
        """
        values = self._values if values is None else values
        columns = ChangeColumns(batch)
        names, ops = columns.names, columns.fact("_op").to_pylist()
        afters = _images(values, names, columns.own, [op != "delete" for op in ops])
        befores = _images(values, names, columns.before.flatten(), [op != "insert" for op in ops])
        _leave_out(befores, afters, columns)
        return befores, afters, self._diffs(afters, columns.fact("_invalid"))

    def _diffs(self, afters: list[dict[str, Any] | None], invalid: pa.Array) -> list[dict[str, str]]:
        """Per row the changes of documents that the log does not have; these are excluded from the image."""
        diffs: list[dict[str, str]] = [{} for _ in afters]
        for at, (name, text) in _entries(invalid):
            if name in self._documents:
                diffs[at][name] = text
                _set(None, afters[at], name, None)
        return diffs


def _images(
    values: Mapping[str, Value], names: list[str], columns: list[pa.Array], there: list[bool]
) -> list[dict[str, Any] | None]:
    if not any(there):
        return [None] * len(there)
    converted = [values[name](column) for name, column in zip(names, columns, strict=True)]
    rows = zip(*converted, strict=True) if converted else ((),) * len(there)
    return [dict(zip(names, row, strict=True)) if is_there else None for row, is_there in zip(rows, there, strict=True)]


def _leave_out(
    befores: list[dict[str, Any] | None], afters: list[dict[str, Any] | None], columns: ChangeColumns
) -> None:
    """Removes the columns that a partial image lacks, and inserts the text of invalid dates. A label whose number is
    noted stays unchanged."""
    for at, name in _entries(columns.fact("_missing")):
        _set(befores[at], afters[at], name, None)
    for at, (name, text) in _entries(columns.fact("_invalid")):
        _set(befores[at], afters[at], name, text)


def _entries(column: pa.Array) -> Iterator[tuple[int, Any]]:
    """The entries of a list or map column, each with its row."""
    if column.null_count < len(column):
        for at, entries in enumerate(column.to_pylist()):
            for entry in entries or ():
                yield at, entry


def _set(before: dict[str, Any] | None, after: dict[str, Any] | None, name: str, value: str | None) -> None:
    image, key = (before, name.removeprefix("_before.")) if name.startswith("_before.") else (after, name)
    if image is None:
        return
    if value is None:
        image.pop(key, None)
    elif image.get(key) is None:
        image[key] = value


def _values_of(kind: ColumnType) -> Value:
    """How a column's values become JSON: as MySQL prints them if JSON has no such type."""
    return JSON_VALUES[kind.kind](kind)


def _each(convert: Callable[[Any], Any]) -> Value:
    return lambda column: [None if value is None else convert(value) for value in column.to_pylist()]


def time_text(micros: int, digits: int) -> str:
    """A TIME as MySQL prints it, with `digits` digits after the second."""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}"[: len(text) + 1 + digits] if digits else text


def _moments(column: pa.Array, digits: int) -> list[str | None]:
    """DATETIME, and TIMESTAMP in UTC: `2024-02-29 12:34:56.789`."""
    plain = column.cast(pa.timestamp("us")) if column.type.tz is None else column.cast(pa.int64()).cast(_MOMENT)
    end = 19 + (1 + digits if digits else 0)
    return [None if value is None else value.isoformat(" ", "microseconds")[:end] for value in plain.to_pylist()]


_MOMENT = pa.timestamp("us")


def _geometry(value: dict[str, Any]) -> str:
    return _base64(value["srid"].to_bytes(4, "little", signed=True) + value["wkb"])


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _plain(column: pa.Array) -> list[Any]:
    return list(column.to_pylist())


def _single(value: float) -> float:
    """The shortest decimal of this 32-bit float."""
    return float(str(np.float32(value)))


def _always(value: Value) -> Callable[[ColumnType], Value]:
    return lambda _: value


def _times(kind: ColumnType) -> Value:
    return _each(lambda value: time_text(value, kind.length or 0))


def _moments_of(kind: ColumnType) -> Value:
    return lambda column: _moments(column, kind.length or 0)


JSON_VALUES: Final[dict[TypeKind, Callable[[ColumnType], Value]]] = {
    **dict.fromkeys(INTEGERS, _always(_plain)),
    TypeKind.BIGINT: _always(_each(int)),
    TypeKind.DECIMAL: _always(_each(lambda value: value if isinstance(value, str) else f"{value:f}")),
    TypeKind.FLOAT: _always(_each(_single)),
    TypeKind.DOUBLE: _always(_plain),
    TypeKind.BIT: _always(_each(int)),
    **dict.fromkeys(kinds_of(Family.CHARACTERS, Family.TEXT, Family.LABELS, Family.FIXED_BYTES), _always(_plain)),
    **dict.fromkeys(kinds_of(Family.BYTES, Family.BLOB), _always(_each(_base64))),
    TypeKind.DATE: _always(_each(lambda value: value.isoformat())),
    TypeKind.DATETIME: _moments_of,
    TypeKind.TIMESTAMP: _moments_of,
    TypeKind.TIME: _times,
    TypeKind.YEAR: _always(_plain),
    TypeKind.JSON: _always(_plain),
    TypeKind.VECTOR: _always(_each(lambda value: [_single(each) for each in value])),
    **dict.fromkeys(SPATIAL, _always(_each(_geometry))),
}
"""How the values of each column type become JSON."""
