"""The published changes of a table in stream order, whole transactions at a time, in bounded memory.
Not here: what is published (`jobs/mirror/`), what changes amount to (`reduce.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from strata.errors import LakeUnavailableError, Usage
from strata.rows.arrow import BEFORE
from strata.tables.convert import state_schema
from strata.tables.layout import table_url
from strata.tables.outputs import OUTPUT
from strata.tables.united import in_shape
from strata.wire.storage import arrow_file_system, lake_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata.schema.model.definition import TableDefinition, TableName

BATCH_ROWS: Final = 1 << 18
"""Changes that are applied in one commit, once whole transactions make so many."""
BATCH_BYTES: Final = 160 << 20
"""Of Arrow memory, likewise."""
_NEEDED: Final = ("_op", "_seq", "_row", "_schema_version", "_missing", "_invalid")


class Span(Struct, frozen=True):
    """A part of the stream in which a table has one definition."""

    after: int
    """Transactions behind this ordinal."""
    until: int
    """And up to this one."""
    version_id: int
    definition: TableDefinition


class Batch(Struct, frozen=True):
    """Changes of whole transactions."""

    changes: pa.Table
    """In the shape of the span's definition."""
    until: int
    """Ordinal of the last transaction of which they may hold changes; all of those up to it are here or were before."""


class _Part(Struct, frozen=True):
    """A row group of a published file."""

    low: int
    """Bounds of `_seq`."""
    high: int
    path: str
    group: int


class PublishedChanges:
    """A change table as it is now.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: The table.

    Raises:
        Usage: A part of it lies beside it, as an older version of Strata left it.
        LakeUnavailableError: The storage does not answer.
    """

    def __init__(self, lake: str, source: str, table: TableName) -> None:
        self._url = table_url(lake, source, table)
        found = OUTPUT.open(self._url)
        if found is not None and found.left_beside():
            raise Usage(
                "an older version of Strata has left a part of the change table beside it",
                source=source,
                table=str(table),
                remedy="The next publication of the table puts it together.",
            )
        self._files = {} if found is None else found.files()
        self._columns = pa.schema([]) if found is None else found.columns
        self._files_of: dict[str, list[_Part]] = {}

    def batches(self, span: Span, is_in: Callable[[int], bool]) -> Iterator[Batch]:
        """The changes of a span, in order; the last batch reaches its end, and may be empty.

        Args:
            span: What is wanted.
            is_in: Whether an interval, by its start, may have some of it.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        parts = sorted(
            (part for path, start in self._files.items() if is_in(start) for part in self._parts(path)),
            key=lambda part: part.low,
        )
        parts = [part for part in parts if part.high > span.after and part.low <= span.until]
        held: list[pa.Table] = []
        for at, part in enumerate(parts):
            held.append(self._read(part, span))
            follows = parts[at + 1].low if at + 1 < len(parts) else span.until + 1
            if sum(one.num_rows for one in held) < BATCH_ROWS and sum(one.nbytes for one in held) < BATCH_BYTES:
                continue
            whole = pa.concat_tables(held)
            is_whole = pc.less(whole["_seq"], follows)
            if at + 1 < len(parts) and pc.any(is_whole).as_py():
                yield Batch(whole.filter(is_whole), follows - 1)
                held = [whole.filter(pc.invert(is_whole))]
        yield Batch(pa.concat_tables(held) if held else self._none(span), span.until)

    def _parts(self, path: str) -> list[_Part]:
        if path not in self._files_of:
            metadata = self._open(path).metadata
            at = metadata.schema.to_arrow_schema().names.index("_seq")
            leaf = (
                next(
                    number
                    for number in range(metadata.num_columns)
                    if metadata.row_group(0).column(number).path_in_schema == "_seq"
                )
                if metadata.num_row_groups
                else at
            )
            self._files_of[path] = [
                _Part(bounds.min, bounds.max, path, group)
                for group in range(metadata.num_row_groups)
                for bounds in [metadata.row_group(group).column(leaf).statistics]
            ]
        return self._files_of[path]

    def _open(self, path: str) -> pq.ParquetFile:
        where = f"{self._url}/{path}"
        with lake_errors(where):
            files, inside = arrow_file_system(where)
            try:
                return pq.ParquetFile(inside, filesystem=files)
            except FileNotFoundError as error:
                raise LakeUnavailableError("a published file is gone", file=where) from error

    def _read(self, part: _Part, span: Span) -> pa.Table:
        with lake_errors(f"{self._url}/{part.path}"):
            found = self._open(part.path).read_row_group(part.group)
        is_wanted = pc.and_(
            pc.and_(pc.greater(found["_seq"], span.after), pc.less_equal(found["_seq"], span.until)),
            pc.equal(found["_schema_version"], span.version_id),
        )
        if not pc.all(is_wanted).as_py():
            found = found.filter(is_wanted)
        # What a column goes on from stands in the table's log, not in the file.
        fields = [
            self._columns.field(name) if self._columns.get_field_index(name) >= 0 else found.schema.field(name)
            for name in found.schema.names
        ]
        named = pa.Table.from_arrays(
            [column.cast(field.type) for column, field in zip(found.columns, fields, strict=True)],
            schema=pa.schema(fields),
        )
        return self._shaped(named, span)

    def _shaped(self, found: pa.Table, span: Span) -> pa.Table:
        shaped = in_shape(found, state_schema(span.definition))
        return shaped.select([*state_schema(span.definition).names, BEFORE, *_NEEDED])

    def _none(self, span: Span) -> pa.Table:
        shape = state_schema(span.definition)
        names = {"_op": pa.string(), "_seq": pa.int64(), "_row": pa.int64(), "_schema_version": pa.int64()}
        fields = [*shape, pa.field(BEFORE, pa.struct(list(shape))), *(pa.field(*one) for one in names.items())]
        return pa.schema(fields).empty_table()
