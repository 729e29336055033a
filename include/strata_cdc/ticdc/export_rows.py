"""Rows of an export by Dumpling, as the values that change tables have.
Not here: the form of its files (`export_form.py`), values of a sink in general (`values.py`).

An export has what SELECT shows. So TIMESTAMP is in the time zone of Dumpling's session, which no file shows. Bytes and
BIT are hexadecimal in SQL. In CSV they are raw, hexadecimal or base64 by an option that no file shows
(`--csv-output-dialect`), and any of these may be read as another one: such columns are refused there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from strata_cdc.changes.arrow import arrow_type_of
from strata_cdc.errors import DamagedFileError, Usage
from strata_cdc.schema.model.types import Family, TypeKind, parse_column_type
from strata_cdc.ticdc.encodings import BinaryForm, NotEncodedError, bytes_of
from strata_cdc.ticdc.export_folder import COPY_REMEDY, ExportForm
from strata_cdc.ticdc.export_form import records_of
from strata_cdc.ticdc.records import BadRowError, converted_texts
from strata_cdc.ticdc.values import ColumnValues, ConvertedTexts, NotAValueError, ValueForm, column_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
    from strata_cdc.schema.model.types import ColumnType
    from strata_cdc.ticdc.export_folder import ExportedTable, ExportFile
    from strata_cdc.ticdc.export_form import CsvRecords

_BYTES: Final = frozenset({Family.BYTES, Family.BLOB})
_ROW: Final = re.compile(r"Row #(\d+)")
_COLUMN: Final = re.compile(r"In CSV column #(\d+)")


def exported_rows(
    name: TableName, table: ExportedTable, definition: TableDefinition, time_zone: str | None
) -> Iterator[list[ConvertedTexts]]:
    """The rows of a table, in blocks: the values of each column, in the order of the columns.

    Args:
        name: The table.
        table: Its files.
        definition: Its columns.
        time_zone: Of the session that exported TIMESTAMP; None: not known.

    Raises:
        Usage: A column is a TIMESTAMP, and no time zone is known.
        BadData: A file is cut, has other columns, or a value that is none.
        LakeUnavailableError: The storage does not answer.
    """
    values = [_column(column, table.form, time_zone) for column in definition.columns]
    for file in table.files:
        yield from _rows_of(file, name, table.form, definition, values)


def _rows_of(
    file: ExportFile, name: TableName, form: ExportForm, definition: TableDefinition, values: list[ColumnValues]
) -> Iterator[list[ConvertedTexts]]:
    before = 0
    try:
        for records in records_of(file, form, name, [column.name for column in definition.columns]):
            columns = _converted(records, definition, values)
            yield columns
            before += len(columns[0].values)
    except BadRowError as error:
        raise DamagedFileError(
            f"row {before + error.row:,} of the file: {error.reason}", file=file.path, remedy=COPY_REMEDY
        ) from error


def _converted(records: CsvRecords, definition: TableDefinition, values: list[ColumnValues]) -> list[ConvertedTexts]:
    columns = _parsed(records, definition, values)
    return [converted_texts(value, column) for value, column in zip(values, columns, strict=True)]


def _parsed(records: CsvRecords, definition: TableDefinition, values: list[ColumnValues]) -> list[pa.Array]:
    names = [str(at) for at in range(len(values))]
    options = csv.ParseOptions(
        delimiter=records.separator, quote_char=records.quote, double_quote=False, ignore_empty_lines=False
    )
    reading = csv.ReadOptions(column_names=names, use_threads=False, block_size=len(records.content) + 1)
    convert = csv.ConvertOptions(
        column_types=dict(zip(names, (value.read_as for value in values), strict=True)),
        null_values=[records.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        table = csv.read_csv(pa.BufferReader(records.content), reading, options, convert)
    except pa.ArrowInvalid as error:
        raise _bad_row(str(error), definition) from error
    return [_restored(column.combine_chunks(), records) for column in table.columns]


def _restored(column: pa.Array, records: CsvRecords) -> pa.Array:
    if pa.types.is_string(column.type):
        for written, meant in records.restore:
            column = pc.replace_substring(column, written, meant)
    return column


def _bad_row(error: str, definition: TableDefinition) -> BadRowError:
    """The row that Arrow refuses. Its value stays out of the message."""
    row, column = _ROW.search(error), _COLUMN.search(error)
    reason = "it has another number of fields than the table has columns"
    if column is not None:
        named = definition.columns[int(column[1])]
        reason = f"column {named.name}: a value is no {named.column_type}"
    return BadRowError(int(row[1]) if row else 1, reason)


def _column(column: Column, form: ExportForm, time_zone: str | None) -> ColumnValues:
    kind = parse_column_type(column.column_type)
    family = kind.kind.facts.family
    if kind.kind is TypeKind.TIMESTAMP and time_zone is None:
        raise Usage(
            f"column {column.name} is a TIMESTAMP, and no file says in which time zone the export has it",
            remedy="Give --time-zone: that of Dumpling's session, which is TiDB's `time_zone` unless "
            "`--params time_zone=...` was given to Dumpling.",
        )
    if family in _BYTES or family is Family.BITS:
        return _of_hex(column, kind, form)
    return column_values(column, ValueForm(BinaryForm.BASE64, has_label_numbers=False, time_zone=time_zone))


def _of_hex(column: Column, kind: ColumnType, form: ExportForm) -> ColumnValues:
    if form is ExportForm.CSV:
        raise Usage(
            f"column {column.name} is {column.column_type}, and no file of CSV shows how its bytes are written",
            remedy="Export with `--filetype sql`, the default of Dumpling.",
        )
    target, is_bits = arrow_type_of(kind), kind.kind.facts.family is Family.BITS

    def convert(texts: pa.Array) -> ConvertedTexts:
        try:
            content = _from_hex(texts)
            return ConvertedTexts(_bits(content, kind.length or 1, target) if is_bits else content.cast(target))
        except (NotEncodedError, pa.ArrowInvalid, OverflowError) as error:
            raise NotAValueError(f"column {column.name}: a value is no {column.column_type}") from error

    return ColumnValues(column.name, pa.string(), convert)


def _from_hex(texts: pa.Array) -> pa.Array:
    if pc.any(pc.invert(pc.match_substring_regex(texts, "^x'[0-9a-fA-F]*'$"))).as_py():
        raise NotEncodedError("no hexadecimal literal")
    return bytes_of(pc.utf8_slice_codeunits(texts, 2, -1), BinaryForm.HEX)


def _bits(content: pa.Array, count: int, target: pa.DataType) -> pa.Array:
    encoded = content.dictionary_encode()
    numbers = [int.from_bytes(value, "big") for value in encoded.dictionary.to_pylist()]
    if any(number >> count for number in numbers):
        raise NotEncodedError("more bits than the type has")
    decoded = pa.array(numbers, pa.uint64()).take(encoded.indices)
    return pc.equal(decoded, 1) if pa.types.is_boolean(target) else decoded.cast(target)
