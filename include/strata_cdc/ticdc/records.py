"""Data files as blocks of complete records.
Not here: what is in a record (`csv_rows.py`, `canal_rows.py`)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Self

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.storage import arrow_file_system, lake_errors
from strata_cdc.ticdc.values import NotAValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import pyarrow as pa

    from strata_cdc.ticdc.folder import FeedFile
    from strata_cdc.ticdc.values import ColumnValues, ConvertedTexts

CUT_REMEDY = "A file that an index names is complete: restore it, from the bucket's older versions if it has them."


class BadRowError(Exception):
    """A row of a block that cannot be read."""

    def __init__(self, row: int, reason: str) -> None:
        """Takes its number in the block from 1, and what is wrong."""
        super().__init__(reason)
        self.row, self.reason = row, reason


def first_bad(count: int, read: Callable[[int], object], refusal: type[Exception]) -> int:
    """The number from 1 of the first row that makes a block bad.

    Args:
        count: How many rows the block has; all together are bad.
        read: Reads so many first rows.
        refusal: What `read` raises if they are bad.
    """
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            read(middle)
        except refusal:
            bad = middle
        else:
            good = middle
    return bad


def converted_texts(values: ColumnValues, column: pa.Array) -> ConvertedTexts:
    """The values of a column of a block.

    Raises:
        BadRowError: A text is none.
    """
    try:
        return values.convert(column)
    except NotAValueError as error:
        row = first_bad(len(column), lambda count: values.convert(column.slice(0, count)), NotAValueError)
        raise BadRowError(row, str(error)) from error


def rows_error(file: FeedFile, row: int, reason: str, remedy: str = CUT_REMEDY) -> DamagedFileError:
    """The error of a row, by its number in the file from 1."""
    return DamagedFileError(f"row {row:,} of the file: {reason}", file=file.path, remedy=remedy)


class RecordBlocks:
    """The complete records of a file, in blocks. A record ends with a line feed that is not between quotes."""

    def __init__(self, file: FeedFile, block_bytes: int, quote: bytes) -> None:
        """Begins with the first record.

        Args:
            file: The file.
            block_bytes: How many bytes are read at once.
            quote: The character that quotes texts with line feeds in them; empty if no record has any.
        """
        self._contents, self._quote = _contents(file, block_bytes), quote
        self.cut = b""
        """What follows the last complete record, once all blocks have been read."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        for content in self._contents:
            self.cut += content
            end = last_end(self.cut, self._quote)
            if end:
                block, self.cut = self.cut[:end], self.cut[end:]
                return block
        raise StopIteration


def first_bytes(file: FeedFile) -> bytes:
    """The first bytes of a file, or all of it."""
    with closing(_contents(file, 4096)) as contents:
        return next(contents, b"")


def _contents(file: FeedFile, block_bytes: int) -> Generator[bytes]:
    with lake_errors(file.url):
        files, path = arrow_file_system(file.url)
        stream = files.open_input_stream(path)
    with closing(stream):
        while True:
            with lake_errors(file.url):
                content = stream.read(block_bytes)
            if not content:
                return
            yield content


def last_end(content: bytes, quote: bytes) -> int:
    """Where the last complete record of a block ends that begins with a record; 0 if none does."""
    end = content.rfind(b"\n") + 1
    if not quote:
        return end
    quotes = content.count(quote, 0, end)
    while end and quotes & 1:
        before = content.rfind(b"\n", 0, end - 1) + 1
        quotes -= content.count(quote, before, end)
        end = before
    return end


def record_end(content: bytes, count: int, quote: bytes) -> int:
    """Where the first `count` records of a block end; for blocks with a fault, line by line."""
    end = 0
    for _ in range(count):
        is_open = True
        begin = end
        while is_open:
            end = content.find(b"\n", end) + 1
            is_open = bool(quote) and content.count(quote, begin, end) & 1 == 1
    return end
