"""The form of a file of rows in an export by Dumpling: CSV, or INSERT statements, which are CSV between brackets.
Not here: values (`export_rows.py`), the folder (`export_folder.py`).

Of CSV the header shows quote and separator. Texts are quoted and escaped by backslashes, so that a line is a row; only
numbers and NULL stand without quotes (pingcap/tidb, pkg/dumpformat). A file that is written otherwise is refused: with
`--escape-backslash=false` or another text for NULL, the same bytes mean other values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import BadData, DamagedFileError
from strata_cdc.ticdc.export_folder import COPY_REMEDY, HOW_TO_EXPORT, ExportForm
from strata_cdc.ticdc.records import BadRowError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.ticdc.export_folder import ExportFile

_CONTROLS: Final = (b"\x1f", b"\x1e", b"\x1d", b"\x1c", b"\x01", b"\x02", b"\x03", b"\x04")
"""That may stand for a separator of several characters."""
_SEPARATOR: Final = re.compile(rb"[^0-9A-Za-z+\-.\\\r\n\0][^\\\r\n\0]{0,31}")
_NO_QUOTE: Final = re.compile(rb"[0-9A-Za-z+\-.\\`,;\s\0\x80-\xff]")
_INSERT: Final = re.compile(rb"(?m)^INSERT INTO `((?:[^`]|``)+)`(?: \((.*)\))? VALUES\r?\n")
_PASSED: Final = re.compile(rb"(?m)^/\*.*\*/;\r?\n")
_BRACKETS: Final = re.compile(rb"(?m)^\(|\)[,;]\r?$")
_COLUMN: Final = re.compile(rb"`((?:[^`]|``)+)`")


class CsvRecords(Struct, frozen=True):
    """Rows that Arrow's CSV reader can read, and how texts are written back."""

    content: bytes
    separator: str
    quote: str
    null: str
    restore: tuple[tuple[str, str], ...]
    """What stands for which bytes, in the order in which it is replaced."""


class _CsvMarks(Struct, frozen=True):
    quote: bytes
    separator: bytes
    null: bytes
    escapes: dict[bytes, bytes]
    """What follows a backslash, and the byte that both stand for; without the backslash itself."""
    is_sql: bool = False

    @property
    def text(self) -> re.Pattern[bytes]:
        """A quoted text."""
        quote, codes = re.escape(self.quote), re.escape(b"".join([*self.escapes, b"\\"]))
        plain = rb"[^%b\\\r\n\0]*" % quote
        return re.compile(rb"%b%b(?:\\[%b]%b)*%b" % (quote, plain, codes, plain, quote))

    @property
    def other(self) -> re.Pattern[bytes]:
        """A field that is no text, no number and not NULL, where each text is an empty one."""
        ends = rb"(?:%b|\r?$)" % re.escape(self.separator)
        text = (rb"x?" if self.is_sql else b"") + re.escape(self.quote) * 2
        return re.compile(
            rb"(?m)(?:^(?!\Z)|%b)(?!(?:%b|%b|[-+.0-9eE]+)%b)"
            % (re.escape(self.separator), text, re.escape(self.null), ends)
        )


def records_of(file: ExportFile, form: ExportForm, table: TableName, names: Sequence[str]) -> Iterator[CsvRecords]:
    """The rows of a file, in blocks.

    Args:
        file: The file.
        form: Its form.
        table: Whose rows it has.
        names: The columns that it has to have, in their order.

    Raises:
        BadRowError: A row is not in the form; its number is that in its block.
        BadData: The file has other columns, is cut, or is in no form that is read.
        LakeUnavailableError: The storage does not answer.
    """
    is_empty = True
    for records in _of_csv(file, names) if form is ExportForm.CSV else _of_sql(file, table, names):
        is_empty = False
        yield records
    if is_empty:
        # Dumpling makes a file with its first row.
        raise DamagedFileError("the file has no rows", file=file.path, remedy=COPY_REMEDY)


def _of_csv(file: ExportFile, names: Sequence[str]) -> Iterator[CsvRecords]:
    marks: _CsvMarks | None = None
    for block in file.blocks():
        _refuse_cut(file, block)
        if marks is None:
            end = block.find(b"\n") + 1
            marks = _csv_marks(file, block[:end].rstrip(b"\r\n"), [name.encode() for name in names])
            block = block[end:]  # noqa: PLW2901  the rest is rows
        if block:
            yield _records(block, marks)


def _refuse_cut(file: ExportFile, block: bytes) -> None:
    if not block.endswith(b"\n"):
        raise DamagedFileError("the file ends in the middle of a row", file=file.path, remedy=COPY_REMEDY)


def _csv_marks(file: ExportFile, header: bytes, names: list[bytes]) -> _CsvMarks:
    quote = header[:1]
    if not quote or _NO_QUOTE.match(quote):
        raise BadData(
            "the file has no header with quoted names, which shows its form", file=file.path, remedy=HOW_TO_EXPORT
        )
    marks = _CsvMarks(quote, b",", b"\\N", {b"0": b"\0", b"n": b"\n", b"r": b"\r", quote: quote})
    written = [quote + name.replace(b"\\", b"\\\\").replace(quote, b"\\" + quote) + quote for name in names]
    separator_end = header.find(written[1], len(written[0])) if len(written) > 1 else len(written[0]) + 1
    separator = header[len(written[0]) : separator_end] if len(written) > 1 else b","
    if separator_end < 0 or separator.join(written) != header:
        theirs = [text[1:-1].decode(errors="replace") for text in marks.text.findall(header)]
        raise BadData(
            f"the header has the columns {', '.join(theirs)}; the table has {b', '.join(names).decode()}",
            file=file.path,
            remedy="Export the table again: this is a file of another one, or of another moment.",
        )
    if not _SEPARATOR.fullmatch(separator) or quote in separator:
        raise BadData(f"the separator {separator!r} is like a part of values", file=file.path, remedy=HOW_TO_EXPORT)
    return _CsvMarks(quote, separator, marks.null, marks.escapes)


_SQL: Final = _CsvMarks(
    b"'",
    b",",
    b"NULL",
    {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"'": b"'", b'"': b'"', b"Z": b"\x1a"},
    is_sql=True,
)


def _of_sql(file: ExportFile, table: TableName, names: Sequence[str]) -> Iterator[CsvRecords]:
    last = b""
    for block in file.blocks():
        _refuse_cut(file, block)
        content = _PASSED.sub(b"", block)
        last = content.rstrip(b"\r\n")[-1:] or last
        for statement in _INSERT.finditer(content):
            _check_insert(file, statement, table, names)
        content = _INSERT.sub(b"", content)
        if content:
            yield _records(_without_brackets(content), _SQL)
    if last not in {b"", b";"}:
        raise DamagedFileError("the file ends in the middle of a statement", file=file.path, remedy=COPY_REMEDY)


def _check_insert(file: ExportFile, statement: re.Match[bytes], table: TableName, names: Sequence[str]) -> None:
    named = [_plain(name) for name in _COLUMN.findall(statement[2] or b"")]
    into = _plain(statement[1])
    if into != table.table or (named and named != list(names)):
        raise BadData(
            f"the file has rows of {into} ({', '.join(named) or 'all columns'}); the table has {', '.join(names)}",
            file=file.path,
            remedy="Export the table again: this is a file of another one, or of another moment.",
        )


def _plain(name: bytes) -> str:
    return name.replace(b"``", b"`").decode(errors="replace")


def _without_brackets(content: bytes) -> bytes:
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if not line.startswith(b"(") or not line.rstrip(b"\r\n").endswith((b"),", b");")):
            raise BadRowError(number, "it is no row of an INSERT statement")
    return _BRACKETS.sub(b"", content)


def _records(content: bytes, marks: _CsvMarks) -> CsvRecords:
    """A block for Arrow's reader.

    Raises:
        BadRowError: A field is neither a quoted and escaped text, nor a number, nor NULL.
    """
    skeleton = marks.text.sub(marks.quote * 2, content)
    if (other := marks.other.search(skeleton)) is not None:
        raise BadRowError(
            skeleton.count(b"\n", 0, other.start()) + 1,
            f"a field is neither a text in {marks.quote.decode()} with backslashes before special characters, nor a "
            f"number, nor {marks.null.decode()}",
        )
    restore: list[tuple[bytes, bytes]] = []
    if b"\\" in content:
        # In this order: what follows two backslashes is not escaped.
        content = content.replace(rb"\\", rb"\b").replace(b"\\" + marks.quote, rb"\q")
        others = [(b"\\" + code, byte) for code, byte in marks.escapes.items() if code != marks.quote]
        restore = [(rb"\q", marks.quote), *others, (rb"\b", b"\\")]
    separator = marks.separator
    if len(separator) > 1 or separator >= b"\x80":
        control = next((mark for mark in _CONTROLS if mark not in content), None)
        if control is None:
            raise BadRowError(1, "its texts have all control characters that could separate fields")
        content = content.replace(marks.separator, control)
        restore.insert(0, (control, marks.separator))
        separator = control
    return CsvRecords(content, separator.decode(), marks.quote.decode(), marks.null.decode(), _texts(restore))


def _texts(pairs: list[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple((written.decode(), meant.decode()) for written, meant in pairs)
