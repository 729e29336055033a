"""Rows of a sink's canal-json files, by Arrow's own reader: a record is a line.
Not here: values of columns (`values.py`).

Arrow makes no difference between a column that is null and a column that is not there, so each `null` of a column is
replaced by a text that no value is before it reads a block.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyarrow import json

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.errors import BadData
from strata_cdc.ticdc.encodings import BinaryForm
from strata_cdc.ticdc.records import BadRowError, RecordBlocks, converted_texts, first_bad, record_end, rows_error
from strata_cdc.ticdc.rows import Operation, image, invalid_texts, lists_of, rows_schema
from strata_cdc.ticdc.values import ConvertedTexts, ValueForm, column_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.ticdc.folder import FeedFile
    from strata_cdc.ticdc.values import ColumnValues

_ROW: Final = re.compile(r"in row (\d+)")
"""In the order of `Operation`."""
_NULL: Final = re.compile(rb'":null(?<!\\":null)(?<![\]}],"old":null)(?=[,}])')
"""The value of a column: within a text the quote would be escaped. `old` as a whole follows the end of an object. What
is before comes last, because a pattern that begins with a text is searched for faster."""
_NO_KEYS: Final = b'","pkNames":"%b","isDdl":'
"""A table without a key has no names of keys; this null is no column's."""
_MARKS: Final = (b"\\u0000NULL", b"\\u0001NULL", b"\\u0002NULL", b"\\u0003NULL")
_EXTENSION: Final = "Set `enable-tidb-extension=true` in the sink-uri, and let the changefeed write a new folder."
_LINE_REMEDY: Final = "It is no line of canal-json as TiCDC writes it for this version of the table. Restore the file."


def canal_rows(
    file: FeedFile, table: TableName, definition: TableDefinition, time_zone: str | None, block_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in batches with the columns of `rows.rows_schema`.

    Args:
        file: The file.
        table: Whose rows it has.
        definition: The version that its directory names.
        time_zone: Of TIMESTAMP, as in `ValueForm`.
        block_bytes: How many bytes are read at once.

    Raises:
        BadData: A line cannot be read, or the file is cut; after all rows before it. Or lines have no commit
            timestamps.
        LakeUnavailableError: The storage does not answer.
    """
    reader = _CanalReader(file, table, definition, time_zone)
    blocks = RecordBlocks(file, block_bytes, b"")
    for content in blocks:
        yield from reader.rows(content)
    if blocks.cut:
        raise rows_error(file, reader.next_row, "the file ends in the middle of it")


class _CanalReader:
    """Converts blocks of one file."""

    def __init__(self, file: FeedFile, table: TableName, definition: TableDefinition, time_zone: str | None) -> None:
        self.next_row = 1
        """The number of the next row in the file."""
        self._file, self._table, self._definition = file, table, definition
        form = ValueForm(BinaryForm.CODE_POINTS, has_label_numbers=True, time_zone=time_zone)
        self._values = [column_values(column, form) for column in definition.columns]
        self._schema = rows_schema(definition)
        self._lines = _lines_schema(definition)

    def rows(self, content: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of a block of complete lines.

        Raises:
            BadData: A line cannot be read; after all rows before it.
        """
        if not content:
            return
        try:
            batch = self._batch(content)
        except BadRowError as bad:
            yield from self.rows(content[: record_end(content, bad.row - 1, b"")])
            raise rows_error(self._file, self.next_row, bad.reason, _LINE_REMEDY) from bad
        self.next_row += batch.num_rows
        yield batch

    def _batch(self, content: bytes) -> pa.RecordBatch:
        mark = next((mark for mark in _MARKS if mark not in content), None)
        if mark is None:
            raise BadRowError(1, "its texts have all marks that could stand for NULL")
        lines = self._parsed(_NULL.sub(b'":"' + mark.replace(b"\\", rb"\\") + b'"', content), mark)
        op = self._checked_operations(lines)
        null = mark.decode().encode().decode("unicode_escape")
        images = _CanalImages(self._values, self._schema, self._definition, null, op)
        ts, key = pc.struct_field(lines["_tidb"], "commitTs"), pc.struct_field(lines["_tidb"], "rowkey")
        after, before, missing, invalid = images.parse_images(lines)
        numbers = pa.array(np.arange(self.next_row, self.next_row + len(ts)))
        columns = [ts, op, numbers, after, before, missing, invalid, key]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _parsed(self, content: bytes, mark: bytes) -> dict[str, pa.Array]:
        text = content.replace(_NO_KEYS % mark, b'","pkNames":null,"isDdl":')
        count = content.count(b"\n")
        try:
            table = self._parsed_lines(text)
        except pa.ArrowInvalid as error:
            # Arrow counts rows from 0, and names none if a type does not fit.
            row = _ROW.search(str(error))
            raise BadRowError(
                min(int(row[1]) + 1, count) if row else self._bad(content), "it is no such line"
            ) from error
        if table.num_rows != count:
            raise BadRowError(min(table.num_rows + 1, count), "it is no line with one object")
        return {name: table[name].combine_chunks() for name in table.column_names}

    def _parsed_lines(self, text: bytes) -> pa.Table:
        """Lines that Arrow accepts, and whose texts are UTF-8, which its reader of JSON does not look at.

        Raises:
            pa.ArrowInvalid: Some are not.
        """
        options = json.ParseOptions(explicit_schema=self._lines, unexpected_field_behavior="error")
        reading = json.ReadOptions(use_threads=False, block_size=len(text) + 1)
        table = json.read_json(pa.BufferReader(text), reading, options)
        table.validate(full=True)
        return table

    def _bad(self, content: bytes) -> int:
        """The first line that is refused."""
        return first_bad(
            content.count(b"\n"),
            lambda count: self._parsed_lines(content[: record_end(content, count, b"")]),
            pa.ArrowInvalid,
        )

    def _checked_operations(self, lines: dict[str, pa.Array]) -> pa.Array:
        """The operations, if all lines are changes of the table with commit timestamps."""
        if pc.any(pc.is_null(pc.struct_field(lines["_tidb"], "commitTs"))).as_py():
            raise BadData("lines have no commit timestamps", file=self._file.path, remedy=_EXTENSION)
        op = pc.index_in(lines["type"], value_set=_types()).cast(pa.int8())
        has_image = pc.equal(pc.list_value_length(lines["data"]), 1)
        is_change = pc.and_(pc.is_valid(op), pc.fill_null(has_image, fill_value=False))
        for name, expected in (("database", self._table.database), ("table", self._table.table)):
            is_change = pc.and_(is_change, pc.fill_null(pc.equal(lines[name], expected), fill_value=False))
        whole = pc.and_(
            pc.invert(pc.fill_null(pc.struct_field(lines["_tidb"], "onlyHandleKey"), fill_value=False)),
            pc.is_null(pc.struct_field(lines["_tidb"], "claimCheckLocation")),
        )
        is_change = pc.and_(is_change, whole)
        if not pc.all(is_change).as_py():
            raise BadRowError(pc.index(is_change, value=False).as_py() + 1, f"it is no change of {self._table}")
        return op


def _lines_schema(definition: TableDefinition) -> pa.Schema:
    """The fields that lines may have."""
    names = [column.name for column in definition.columns]

    def by_column(kind: pa.DataType) -> pa.DataType:
        return pa.struct([pa.field(name, kind) for name in names])

    images = pa.list_(by_column(pa.string()))
    extension = [("commitTs", pa.int64()), ("rowkey", pa.string()), ("onlyHandleKey", pa.bool_())]
    return pa.schema(
        [
            ("id", pa.int64()),
            ("database", pa.string()),
            ("table", pa.string()),
            ("pkNames", pa.list_(pa.string())),
            ("isDdl", pa.bool_()),
            ("type", pa.string()),
            ("es", pa.int64()),
            ("ts", pa.int64()),
            ("sql", pa.string()),
            ("sqlType", by_column(pa.int32())),
            ("mysqlType", by_column(pa.string())),
            ("data", images),
            ("old", images),
            ("_tidb", pa.struct([*extension, ("claimCheckLocation", pa.string())])),
        ]
    )


class _CanalImages(Struct, frozen=True):
    """Makes the images of the lines of a block."""

    values: list[ColumnValues]
    schema: pa.Schema
    definition: TableDefinition
    null: str
    """The text that stands for NULL."""
    op: pa.Array

    def parse_images(self, lines: dict[str, pa.Array]) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
        """The after images, the before images, `missing` and `invalid`."""
        is_delete, is_update = (pc.equal(self.op, int(op)) for op in (Operation.DELETE, Operation.UPDATE))
        data, old = _only_element(lines["data"]), _only_element(lines["old"])
        has_after, has_before = pc.invert(is_delete), pc.or_(is_delete, is_update)
        nothing = pa.scalar(None, pa.string())
        after_texts = [pc.if_else(has_after, text, nothing) for text in data]
        # `old` lacks columns that an update did not change (`only-output-updated-columns`).
        before_texts = [
            pc.if_else(is_delete, new, pc.if_else(is_update, pc.coalesce(before, new), nothing))
            for new, before in zip(data, old, strict=True)
        ]
        afters, befores = self._converted(after_texts), self._converted(before_texts)
        kind = self.schema.field("after").type
        names = [column.name for column in self.definition.columns]
        lacking = [
            *(pc.and_(has_after, pc.is_null(text)) for text in after_texts),
            *(pc.and_(has_before, pc.is_null(text)) for text in before_texts),
        ]
        is_partial = any(pc.any(flag).as_py() for flag in lacking)
        missing_names = [*names, *(f"{BEFORE}.{name}" for name in names)] if is_partial else []
        images = [("", afters, has_after), (f"{BEFORE}.", befores, has_before)]
        return (
            image([value.values for value in afters], kind, has_after),
            image([value.values for value in befores], kind, has_before),
            lists_of(missing_names, lacking, len(self.op)),
            invalid_texts(images, names),
        )

    def _converted(self, texts: list[pa.Array]) -> list[ConvertedTexts]:
        nothing = pa.scalar(None, pa.string())
        return [
            converted_texts(values, pc.if_else(pc.equal(column, self.null), nothing, column))
            for values, column in zip(self.values, texts, strict=True)
        ]


def _only_element(lists: pa.Array) -> list[pa.Array]:
    """The columns of the first object of each list; NULL where there is no list, or an empty one."""
    has_element = pc.greater(pc.fill_null(pc.list_value_length(lists), fill_value=0), 0)
    starts = pc.if_else(has_element, lists.offsets.slice(0, len(lists)), pa.scalar(None, pa.int32()))
    element = lists.values.take(starts)
    return list(element.flatten())


@cache
def _types() -> pa.Array:
    # Not at import: Arrow loads pandas for it, which runs of other sources do not need.
    return pa.array(["DELETE", "UPDATE", "INSERT"])
