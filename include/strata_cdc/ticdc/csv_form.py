"""The form of a sink's CSV files: what the files show of it, and what only the user knows.
Not here: rows (`csv_rows.py`).

The folder keeps no settings. The first record shows delimiter, quote, header and the columns before the values, since
it begins with an operation and the names of the table, which are known.
"""

from __future__ import annotations

import re
from string import ascii_letters
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import BadData, Usage
from strata_cdc.ticdc.encodings import BinaryForm
from strata_cdc.ticdc.records import record_end, rows_error

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.ticdc.folder import FeedFile

_HEADER: Final = re.compile(rb"ticdc-meta\$operation(?P<delimiter>.+?)ticdc-meta\$table", re.DOTALL)
_META: Final = b"ticdc-meta$"
_START: Final = re.compile(rb"(?P<quote>[^IUD]?)[IUD](?P=quote)")
_MOST_DELIMITER: Final = 32
_ESCAPE: Final = re.compile(rb"\\.?", re.DOTALL)
_OF_TEXTS: Final = {b"n", b"r"}
"""What follows a backslash in texts, besides a backslash and the bytes of the delimiter."""
_BEFORE_VALUES: Final = 3
"""Operation, table, schema."""
COMMIT_TS_REMEDY: Final = (
    "Set `include-commit-ts = true` in [sink.csv] of the changefeed, and let it write a new folder."
)


class CsvSettings(Struct, frozen=True):
    """What no file shows; the values here are TiCDC's defaults."""

    null: str = "\\N"
    """How NULL is written (`null`)."""
    binary: BinaryForm = BinaryForm.BASE64
    """`binary-encoding-method`."""
    time_zone: str | None = None
    """Of TIMESTAMP, as in `ValueForm`."""


class CsvForm(Struct, frozen=True):
    """The form of one file."""

    delimiter: bytes
    quote: bytes
    """Empty: nothing is quoted, and a backslash escapes."""
    header: int
    """Bytes of the header."""
    has_old_values: bool
    """Whether an update has two records: the old row and the new row."""

    @property
    def before_values(self) -> int:
        """How many fields a record has before the values."""
        return _BEFORE_VALUES + 1 + self.has_old_values


def quote_of(content: bytes) -> bytes:
    """The quote of a file by its first bytes; empty if nothing is quoted."""
    begin = content.find(b"\n") + 1 if content.startswith(_META) else 0
    start = _START.match(content, begin)
    return start["quote"] if start else b'"'


def csv_form(content: bytes, file: FeedFile, table: TableName, definition: TableDefinition) -> CsvForm:
    """The form of a file by its first block.

    Args:
        content: Complete records.
        file: The file.
        table: Whose rows it has.
        definition: The version that its directory names.

    Raises:
        BadData: It is none of the forms; or it has no commit timestamps, so that the order of rows is not known.
    """
    header = _HEADER.match(content)
    begin = record_end(content, 1, b"") if header else 0
    first = content[begin:]
    quote, delimiter = _marks(first, file, table, header and header["delimiter"])
    record = first[: record_end(first, 1, quote)] if first else b""
    if header is not None:
        _check_header(content[:begin], delimiter, file, definition)
    fields = split_record(record, delimiter, quote) if record else []
    if not fields:
        is_update = _META + b"is-update" in content[:begin]
        return CsvForm(delimiter, quote, begin, is_update)
    return CsvForm(delimiter, quote, begin, _has_old_values(fields, file, len(definition.columns)))


def _marks(first: bytes, file: FeedFile, table: TableName, delimiter: bytes | None) -> tuple[bytes, bytes]:
    """The quote and the delimiter."""
    start = _START.match(first)
    if not first and delimiter:
        return b'"', delimiter
    if start is not None:
        quote, rest = start["quote"], first[start.end() :]
        for length in range(1, _MOST_DELIMITER + 1):
            separator = rest[:length]
            names = separator.join(
                [b"", *(_written(name, separator, quote) for name in (table.table, table.database)), b""]
            )
            if rest.startswith(names) and len(separator) == length and delimiter in {None, separator}:
                return quote, _usable(separator, quote, file)
    raise rows_error(
        file,
        1,
        f"it does not begin with an operation, {table.table} and {table.database}",
        "It is no CSV of TiCDC, or has rows of another table (a changefeed that routes tables under other names).",
    )


def _written(name: str, delimiter: bytes, quote: bytes) -> bytes:
    """A name as a field."""
    text = name.encode()
    if quote:
        return quote + text.replace(quote, quote * 2) + quote
    escaped = text.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return escaped.replace(delimiter, b"".join(b"\\%c" % byte for byte in delimiter))


def _usable(delimiter: bytes, quote: bytes, file: FeedFile) -> bytes:
    unusable = set(b"\r\n\\") | (set(ascii_letters.encode()) if not quote else set(quote))
    if unusable & set(delimiter) or not delimiter.isascii():
        raise BadData(f"the delimiter {delimiter!r} is like a part of texts", file=file.path, remedy="Set another.")
    return delimiter


def split_record(record: bytes, delimiter: bytes, quote: bytes) -> list[bytes]:
    """The fields of one record, as they are written."""
    record = record.rstrip(b"\r\n")
    mark, text = re.escape(delimiter), re.escape(quote)
    plain = rb"(?:(?!%b).)*" % mark if quote else rb"(?:\\.|(?!%b).)*" % mark
    quoted = rb"%b(?:[^%b]|%b%b)*%b|" % ((text,) * 5) if quote else b""
    field = re.compile(rb"(%b%b)(?:%b|\Z)" % (quoted, plain, mark), re.DOTALL)
    fields, at = list[bytes](), 0
    while at <= len(record):
        match = field.match(record, at)
        if match is None:
            break
        fields.append(match[1])
        at = match.end() if match.end() > match.end(1) else len(record) + 1
    return fields


def _check_header(header: bytes, delimiter: bytes, file: FeedFile, definition: TableDefinition) -> None:
    names = header.rstrip(b"\r\n").split(delimiter)
    if _META + b"commit-ts" not in names:
        raise BadData("the file has no commit timestamps", file=file.path, remedy=COMMIT_TS_REMEDY)
    columns = [name.decode(errors="replace") for name in names if not name.startswith(_META)]
    expected = [column.name for column in definition.columns]
    if columns != expected:
        raise BadData(
            f"the header has the columns {', '.join(columns)}; the schema file has {', '.join(expected)}",
            file=file.path,
            remedy="Write all columns: no column selectors, and no virtual generated columns in the table.",
        )


def _has_old_values(fields: list[bytes], file: FeedFile, columns: int) -> bool:
    extra = len(fields) - columns
    following = [field.strip(b'"') for field in fields[_BEFORE_VALUES : _BEFORE_VALUES + 2]]
    has_ts = extra > _BEFORE_VALUES and following[0].isdigit()
    if extra == _BEFORE_VALUES or (extra == _BEFORE_VALUES + 1 and not has_ts):
        raise BadData("the file has no commit timestamps", file=file.path, remedy=COMMIT_TS_REMEDY)
    is_pair = extra == _BEFORE_VALUES + 2 and following[1] in {b"true", b"false"}
    if not has_ts or not (extra == _BEFORE_VALUES + 1 or is_pair):
        raise rows_error(
            file,
            1,
            f"it has {len(fields)} fields, and the table has {columns} columns",
            "Write all columns and no handle key: no column selectors, no `output-handle-key`, and no virtual "
            "generated columns in the table; or let the changefeed write canal-json.",
        )
    return is_pair


def check_settings(settings: CsvSettings, form: CsvForm) -> None:
    """Whether NULL differs from every value.

    Raises:
        Usage: The text of NULL has a delimiter or a quote in it; or nothing is quoted, and it could be a text.
    """
    null = settings.null.encode()
    if form.delimiter in null or (form.quote and form.quote in null) or b"\n" in null or b"\\\\" in null:
        raise _no_null(settings)
    if form.quote:
        return
    escapes = {sequence[1:] for sequence in _ESCAPE.findall(null)}
    if b"" in escapes or escapes & {bytes([byte]) for byte in form.delimiter}:
        raise _no_null(settings)
    if escapes <= _OF_TEXTS:
        raise Usage(
            f"NULL is written as {settings.null!r}, which could be a text: nothing is quoted",
            remedy="Let the changefeed write a new folder, with `null = '\\N'` or with a `quote` in [sink.csv].",
        )


def _no_null(settings: CsvSettings) -> Usage:
    return Usage(f"NULL cannot be written as {settings.null!r} here", remedy="Give --null as [sink.csv] has it.")
