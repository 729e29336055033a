"""Rows of a sink's CSV files, by Arrow's own reader.
Not here: their form (`csv_form.py`), values of columns (`values.py`)."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyarrow import csv

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.ticdc.csv_form import check_settings, csv_form, quote_of
from strata_cdc.ticdc.csv_texts import CsvTexts
from strata_cdc.ticdc.records import (
    BadRowError,
    RecordBlocks,
    converted_texts,
    first_bytes,
    last_end,
    record_end,
    rows_error,
)
from strata_cdc.ticdc.rows import Operation, before_names, image, invalid_texts, no_image, repeated_list, rows_schema
from strata_cdc.ticdc.values import ConvertedTexts, ValueForm, column_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.ticdc.csv_form import CsvForm, CsvSettings
    from strata_cdc.ticdc.folder import FeedFile

_ROW: Final = re.compile(r"Row #(\d+)")
_COLUMN: Final = re.compile(r"In CSV column #(\d+)")
"""In the order of `Operation`."""


def csv_rows(
    file: FeedFile, table: TableName, definition: TableDefinition, settings: CsvSettings, block_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in batches with the columns of `rows.rows_schema`.

    Args:
        file: The file.
        table: Whose rows it has.
        definition: The version that its directory names.
        settings: What the file does not show.
        block_bytes: How many bytes are read at once.

    Raises:
        BadData: A row cannot be read, or the file is cut; after all rows before it.
        Usage: The settings do not fit.
        LakeUnavailableError: The storage does not answer.
    """
    reader, rest = None, b""
    blocks = RecordBlocks(file, block_bytes, quote_of(first_bytes(file)))
    while (content := next(blocks, None)) is not None:
        if reader is None:
            reader = _CsvReader(file, table, definition, settings, csv_form(content, file, table, definition))
            content = content[reader.form.header :]
        yield from reader.rows(rest + content)
        rest = reader.rest
    row = 1 if reader is None else reader.next_row
    if blocks.cut:
        raise rows_error(file, row, "the file ends in the middle of it")
    if rest:
        raise rows_error(file, row, "it is the old row of an update, and the file has no new row")


class _CsvReader:
    """Converts blocks of one file."""

    def __init__(
        self, file: FeedFile, table: TableName, definition: TableDefinition, settings: CsvSettings, form: CsvForm
    ) -> None:
        check_settings(settings, form)
        self.form = form
        self.next_row = 1
        """The number of the next row in the file."""
        self.rest = b""
        """The old row of an update whose new row is in the next block."""
        self._file, self._table, self._definition = file, table, definition
        values = ValueForm(settings.binary, has_label_numbers=False, time_zone=settings.time_zone)
        self._values = [column_values(column, values) for column in definition.columns]
        self._schema = rows_schema(definition)
        before = [pa.string(), pa.string(), pa.string(), pa.int64(), *([pa.bool_()] * form.has_old_values)]
        types = [*before, *(value.read_as for value in self._values)]
        self._texts = CsvTexts(form, settings.null)
        self._names = [str(at) for at in range(len(types))]
        self._convert = csv.ConvertOptions(
            column_types=dict(zip(self._names, types, strict=True)),
            null_values=[settings.null],
            true_values=["true"],
            false_values=["false"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def rows(self, content: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of a block of complete records.

        Raises:
            DamagedFileError: A row cannot be read; after all rows before it.
        """
        self.rest = b""
        if not content:
            return
        try:
            batch = self._batch(content)
        except BadRowError as bad:
            yield from self.rows(content[: record_end(content, bad.row - 1, self.form.quote)])
            raise rows_error(self._file, self.next_row, bad.reason) from bad
        if batch.num_rows:
            yield batch

    def _batch(self, content: bytes) -> pa.RecordBatch:
        columns = self._parsed(content)
        op = pc.index_in(columns[0], value_set=_letters()).cast(pa.int8())
        self._check(op, columns)
        ops, ts = op.to_numpy(), columns[3]
        is_pair = np.zeros(len(ops), np.bool_)
        count = len(ops)
        if self.form.has_old_values:
            is_pair = columns[4].to_numpy(zero_copy_only=False).astype(np.bool_) & (ops != Operation.UPDATE)
            if is_pair[-1] and ops[-1] == Operation.DELETE:
                self.rest = content[last_end(content[:-1], self.form.quote) :]
                count -= 1
        texts = (column.slice(0, count) for column in columns[self.form.before_values :])
        converted = [converted_texts(*pair) for pair in zip(self._values, texts, strict=True)]
        numbers = np.arange(self.next_row, self.next_row + count)
        images = _CsvImages(ops[:count], ts.slice(0, count), numbers, converted, self._schema, self._definition)
        batch = images.paired(is_pair[:count]) if is_pair[:count].any() else images.plain()
        self.next_row += count
        return batch

    def _parsed(self, content: bytes) -> list[pa.Array]:
        """The fields of a block, as the types that the reader converts to."""
        text, delimiter = self._texts.readable(content)
        options = csv.ParseOptions(
            delimiter=delimiter,
            quote_char=self.form.quote.decode() or False,
            newlines_in_values=bool(self.form.quote),
            ignore_empty_lines=False,
        )
        reading = csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(text) + 1)
        try:
            table = csv.read_csv(pa.BufferReader(text), reading, options, self._convert)
        except pa.ArrowInvalid as error:
            raise self._bad_row(str(error)) from error
        return [
            self._texts.restored(column, delimiter) if pa.types.is_string(column.type) else column
            for column in (chunked.combine_chunks() for chunked in table.columns)
        ]

    def _bad_row(self, error: str) -> BadRowError:
        """The row that Arrow refuses. Its value stays out of the message."""
        row, column = _ROW.search(error), _COLUMN.search(error)
        reason = "it has another number of fields than the table has columns"
        if column is not None:
            at = int(column[1]) - self.form.before_values
            named = self._definition.columns[at] if at >= 0 else None
            reason = f"column {named.name}: a value is no {named.column_type}" if named else "a field before its values"
        return BadRowError(int(row[1]) if row else 1, reason)

    def _check(self, op: pa.Array, columns: Sequence[pa.Array]) -> None:
        """Whether operations, names and timestamps are what they have to be."""
        wrong = pc.or_(pc.is_null(op), pc.is_null(columns[3]))
        for column, name in ((columns[1], self._table.table), (columns[2], self._table.database)):
            wrong = pc.or_(wrong, pc.fill_null(pc.not_equal(column, name), fill_value=True))
        if pc.any(wrong).as_py():
            raise BadRowError(pc.index(wrong, value=True).as_py() + 1, f"it is no change of {self._table}")


class _CsvImages(Struct, frozen=True):
    """The records of a block, and what becomes rows of them."""

    ops: Any
    ts: pa.Array
    numbers: Any
    values: list[ConvertedTexts]
    schema: pa.Schema
    definition: TableDefinition

    def plain(self) -> pa.RecordBatch:
        """A row for each record. Of an update the old row is not known."""
        is_delete, is_update = (pa.array(self.ops == op) for op in (Operation.DELETE, Operation.UPDATE))
        columns = [value.values for value in self.values]
        kind = self.schema.field("after").type
        after = image(columns, kind, pc.invert(is_delete))
        if pc.any(is_delete).as_py():
            old = columns if not pc.any(is_update).as_py() else [_only(column, is_delete) for column in columns]
            before = image(old, kind, pc.or_(is_delete, is_update))
        else:
            before = no_image(kind, is_update)
        names = [column.name for column in self.definition.columns]
        images = [("", self.values, pc.invert(is_delete)), (f"{BEFORE}.", self.values, is_delete)]
        return self._batch(self.ops, self.numbers, self.ts, after, before, is_update, invalid_texts(images, names))

    def paired(self, is_pair: Any) -> pa.RecordBatch:
        """As `plain`, but an old row and the new row after it are one update."""
        olds = np.flatnonzero(is_pair & (self.ops == Operation.DELETE))
        news = np.flatnonzero(is_pair & (self.ops == Operation.INSERT))
        ts = self.ts.to_numpy()
        if not np.array_equal(olds + 1, news) or (ts[olds] != ts[news]).any():
            row = next(
                (old for old, new in zip(olds, news, strict=False) if old + 1 != new), olds[-1] if len(olds) else 0
            )
            raise BadRowError(int(row) + 1, "the two rows of an update do not follow each other")
        kept = np.flatnonzero(~(is_pair & (self.ops == Operation.DELETE)))
        ops = np.where(is_pair, np.int8(Operation.UPDATE), self.ops)[kept]
        is_delete, is_update = ops == Operation.DELETE, ops == Operation.UPDATE
        is_known = is_pair[kept]
        after = self._images(kept, ~is_delete, ~is_delete)
        before = self._images(kept - is_known, is_delete | is_known, is_delete | is_update)
        names = [column.name for column in self.definition.columns]
        images = [
            ("", self._texts(kept), pa.array(~is_delete)),
            (f"{BEFORE}.", self._texts(kept - is_known), pa.array(is_delete | is_known)),
        ]
        unknown = pa.array(is_update & ~is_known)
        rows = pa.array(kept)
        return self._batch(
            ops, self.numbers[kept], self.ts.take(rows), after, before, unknown, invalid_texts(images, names)
        )

    def _images(self, rows: Any, is_known: Any, is_there: Any) -> pa.Array:
        chosen = pa.array(rows, mask=~is_known)
        columns = [value.values.take(chosen) for value in self.values]
        return image(columns, self.schema.field("after").type, pa.array(is_there))

    def _texts(self, rows: Any) -> list[ConvertedTexts]:
        chosen = pa.array(rows)
        return [ConvertedTexts(value.values, value.invalid and value.invalid.take(chosen)) for value in self.values]

    def _batch(
        self,
        ops: Any,
        numbers: Any,
        ts: pa.Array,
        after: pa.Array,
        before: pa.Array,
        unknown: pa.Array,
        invalid: pa.Array,
    ) -> pa.RecordBatch:
        """Args: `unknown` says of which rows the before image is not known."""
        missing = repeated_list(before_names(self.definition), unknown)
        columns = [
            ts,
            pa.array(ops),
            pa.array(numbers),
            after,
            before,
            missing,
            invalid,
            pa.nulls(len(ts), pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _only(column: pa.Array, rows: pa.Array) -> pa.Array:
    return pc.if_else(rows, column, pa.scalar(None, column.type))


@cache
def _letters() -> pa.Array:
    # Not at import: Arrow loads pandas for it, which runs of other sources do not need.
    return pa.array(["D", "U", "I"])
