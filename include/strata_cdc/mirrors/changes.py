"""The published changes of a table in stream order, whole transactions at a time, in bounded memory.
Not here: what is published (`mirrors/follow/`), reducing changes (`reduce.py`)."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, structs

from strata_cdc.arrow_columns import no_rows
from strata_cdc.changes.arrow import BEFORE, INVALID
from strata_cdc.errors import LakeUnavailableError, Usage
from strata_cdc.files.storage import arrow_file_system, lake_errors
from strata_cdc.mirrors.applied_files import AppliedFiles
from strata_cdc.mirrors.ddl_plan import CannotFollowError
from strata_cdc.mirrors.layout import key_columns
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.continued import plain_name
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.current_rows import end_column
from strata_cdc.tables.layout import METADATA, column_name, table_url
from strata_cdc.tables.lost import open_changes
from strata_cdc.tables.ordered_rows import row_groups_of
from strata_cdc.tables.state import unlogged_sources
from strata_cdc.tables.united import as_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.tables.ordered_rows import RowGroup

_NEEDED: Final = ("_op", "_seq", "_row", "_schema_version", "_missing", "_invalid")
_PASSED_OVER: Final = frozenset(METADATA) - {*_NEEDED}
_KEPT_FOOTERS: Final = 64
"""For files that are opened twice: for the bounds of their row groups, and for the rows; each at most some 100 KB."""
_FEW_ROWS: Final = 1 << 14
"""In row groups with fewer rows, threads cost more than they save."""


SeqRange = tuple[int, int]
"""Transactions after < seq <= until."""


class VersionRange(Struct, frozen=True):
    """A range of the stream in which a table has one definition."""

    after: int
    """The range begins after the transaction with this ordinal."""
    until: int
    """The range ends with this transaction."""
    version_id: int
    definition: TableDefinition
    same_rows: frozenset[int] = frozenset()
    """Earlier versions that changes in the range may have, too, because their rows are rows of this version."""


class MirrorBatch(Struct, frozen=True):
    """Changes of whole transactions."""

    changes: pa.Table
    """In the columns of the definition of the range; images before have only what is needed of them."""
    until: int
    """Ordinal of the last transaction whose changes may be here; all changes up to it are here or were before."""
    rest: Callable[[], Iterable[pa.Table]] = tuple
    """If one transaction is too large for memory: its other changes, in order, a batch at a time."""


class OpenGroup(Struct, frozen=True):
    """A row group of a published file that is open."""

    url: str
    """The file."""
    file: pq.ParquetFile
    number: int
    logged: pa.Schema
    """The columns of the change table by its log: which column continues another one is there, not in the file."""

    def read_columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns, as they are in the table's log.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        is_large = self.file.metadata.row_group(self.number).num_rows >= _FEW_ROWS
        with lake_errors(self.url):
            rows = self.file.read_row_group(self.number, columns=list(names), use_threads=is_large)
        fields = [_as_logged(field, self.logged) for field in rows.schema]
        columns = [column.cast(field.type) for column, field in zip(rows.columns, fields, strict=True)]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def paths_after(self, columns: Iterable[str]) -> list[str]:
        """Paths of some columns of the image after a change, under the names of all types that they have had."""
        return _names_in_file(columns, self.file.schema_arrow, self.logged)

    def paths_before(self, columns: Iterable[str]) -> list[str]:
        """The same of the image before; that of the whole image, if paths cannot name the columns."""
        names = _names_in_file(columns, self.file.schema_arrow.field(BEFORE).type, self.logged.field(BEFORE).type)
        # In a path, a dot separates a column from the field in it.
        return [BEFORE] if any("." in name for name in names) else [f"{BEFORE}.{name}" for name in names]


class GroupReader(Protocol):
    """Reads changes from row groups."""

    def read_changes(self, group: OpenGroup, span: VersionRange) -> pa.Table:
        """The changes of a range in a row group, in any order."""

    def none(self, span: VersionRange) -> pa.Table:
        """No changes, with the columns of `read_changes`."""


class _MirrorReader:
    """Reads what mirrors need."""

    def read_changes(self, group: OpenGroup, span: VersionRange) -> pa.Table:
        """The changes in the columns of the definition of the range; of images before, only what is needed.

        Raises:
            CannotFollowError: A change has another schema version.
            LakeUnavailableError: The storage does not answer.
        """
        names = [name for name in group.file.schema_arrow.names if name not in _PASSED_OVER]
        # All images after are complete, or are completed from the mirror's rows.
        before = group.paths_before(_columns_before(span.definition)) or [BEFORE]
        rows = group.read_columns([*names, *before])
        is_wanted = pc.and_(pc.greater(rows["_seq"], span.after), pc.less_equal(rows["_seq"], span.until))
        if not pc.all(is_wanted).as_py():
            rows = rows.filter(is_wanted)
        others = set(pc.unique(rows["_schema_version"]).to_pylist()) - span.same_rows - {span.version_id}
        if others:
            raise CannotFollowError(
                f"changes up to transaction {span.until:,} have the columns of schema version {min(others)}, which a "
                "statement has changed before them: they were prepared (XA) before it"
            )
        schema = state_schema(span.definition)
        rows = as_schema(rows, schema, _before(schema, span.definition))
        return rows.select([*schema.names, BEFORE, *_NEEDED])

    def none(self, span: VersionRange) -> pa.Table:
        """No changes."""
        schema = state_schema(span.definition)
        names = {"_op": pa.string(), "_seq": pa.int64(), "_row": pa.int64(), "_schema_version": pa.int64()}
        names["_invalid"] = INVALID
        images = pa.struct(list(_before(schema, span.definition)))
        fields = [*schema, pa.field(BEFORE, images), *(pa.field(*name) for name in names.items())]
        return no_rows(pa.schema(fields))


MIRROR_READER: Final = _MirrorReader()


class PublishedChanges:
    """A change table as it is now.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: The table.
        known: A version that the change table is known to have had; None if no version is known.
        limits: How large batches become.

    Raises:
        Usage: A part of it is in a folder beside it, as an older version of Strata wrote it.
        LostTableError: It lacks the version `known`, or is damaged.
        LakeUnavailableError: The storage does not answer.
    """

    def __init__(
        self, lake: str, source: str, table: TableName, known: int | None = None, limits: MirrorLimits = MirrorLimits()
    ) -> None:
        self._limits = limits
        self._url = table_url(lake, source, table)
        output = open_changes(lake, source, table, known)
        if output is not None and output.left_beside():
            raise Usage(
                "an older version of Strata has left a part of the change table beside it",
                source=source,
                table=str(table),
                remedy="The next publication of the table puts it together.",
            )
        self.version = -1 if output is None else output.version
        """Version of the change table; -1 if there is no change table."""
        self._output = output
        self._files = {} if output is None else output.files()
        self._bounds = {} if output is None else output.bounds("_seq")
        self._columns = pa.schema([]) if output is None else output.columns
        self._files_of: dict[str, list[RowGroup[str]]] = {}
        self._metadata: dict[str, pq.FileMetaData] = {}
        self._last: tuple[str, pq.ParquetFile] | None = None

    def applied_files(self, before: AppliedFiles | None, first: int, last: int, applied: SeqRange) -> AppliedFiles:
        """The files that a mirror's rows come from once some changes are applied.

        Args:
            before: The files that its rows came from before; None if no changes were applied to it yet.
            first: Start of the first interval that counts, if `before` is None.
            last: Start of the interval with the last of the changes.
            applied: The range of the changes. A file with one of them counts, whatever interval the caller knows it in:
                intervals may have become one since the caller read them.
        """
        if before is not None:
            # Mostly the files are the same, and no commit need be read.
            moved = before if before.still_holds(self._files) else self._after(before)
            first = before.first if moved is None else moved.first
        starts = [self._files[path] for path in self._bounds if self._may_have(path, applied)]
        return AppliedFiles.from_files(self._files, self.version, min([first, *starts]), max([last, *starts]))

    def still_has(self, applied: AppliedFiles) -> bool:
        """Whether it still has the files that were applied, or others with the same rows."""
        return applied.still_holds(self._files) or self._after(applied) is not None

    def _after(self, applied: AppliedFiles) -> AppliedFiles | None:
        """The applied files as they are now; None if their rows were changed, or nobody knows any more."""
        if self._output is None or applied.version > self.version:
            return None
        commits = self._output.commits_since(applied.version)
        return None if commits is None else applied.after(commits)

    def batches(
        self, span: VersionRange, at_once: int = 1, reader: GroupReader = MIRROR_READER
    ) -> Iterator[MirrorBatch]:
        """The changes of a range, in order; the last batch reaches the end of the range, and may be empty.

        Args:
            span: The range. All of its changes are published.
            at_once: How many tables share the memory of the process: batches are smaller by this factor.
            reader: What is read of each change.

        Raises:
            CannotFollowError: Changes in the range have another schema version.
            LakeUnavailableError: The storage does not answer.
        """
        parts = deque(self._parts_of(span))
        held: list[pa.Table] = []
        while parts:
            held.append(reader.read_changes(self._group(parts.popleft()), span))
            if not parts or not self._is_much(held, at_once):
                continue
            follows, whole = parts[0].low, pa.concat_tables(held)
            first, rest = _split(whole, pc.less(whole["_seq"], follows))
            if first.num_rows:
                yield MirrorBatch(first, follows - 1)
                held = [rest]
            elif own := _parts_of_one(whole, parts):
                rest_of = structs.replace(span, until=follows)
                yield MirrorBatch(whole, follows, partial(self._in_order, own, rest_of, at_once, reader))
                # The last row groups may also have the transactions after this one.
                after = structs.replace(span, after=follows)
                held = [reader.read_changes(self._group(part), after) for part in own if part.high > follows]
                for _ in own:
                    parts.popleft()
        yield MirrorBatch(pa.concat_tables(held) if held else reader.none(span), span.until)

    def _is_much(self, held: list[pa.Table], at_once: int) -> bool:
        rows, size = sum(change.num_rows for change in held), sum(int(change.nbytes) for change in held)
        return rows * at_once >= self._limits.batch_rows or size * at_once >= self._limits.batch_bytes

    def _may_have(self, path: str, applied: SeqRange) -> bool:
        """Whether a file has changes of a range, as far as the table's log knows."""
        low, high = self._bounds.get(path, applied)
        return high > applied[0] and low <= applied[1]

    def _parts_of(self, span: VersionRange) -> list[RowGroup[str]]:
        range_ = span.after, span.until
        parts = (part for path in self._files if self._may_have(path, range_) for part in self._parts(path))
        wanted = (part for part in parts if part.high > span.after and part.low <= span.until)
        return sorted(wanted, key=lambda part: (part.low, part.high, part.first_row))

    def _in_order(
        self, parts: list[RowGroup[str]], span: VersionRange, at_once: int, reader: GroupReader
    ) -> Iterator[pa.Table]:
        """The changes in some row groups, in batches of about the usual size."""
        held: list[pa.Table] = []
        for part in parts:
            held.append(reader.read_changes(self._group(part), span))
            if self._is_much(held, at_once):
                yield pa.concat_tables(held)
                held = []
        if held:
            yield pa.concat_tables(held)

    def _parts(self, path: str) -> list[RowGroup[str]]:
        if path not in self._files_of:
            metadata = self._open(path).metadata
            if len(self._metadata) < _KEPT_FOOTERS:
                self._metadata[path] = metadata
            self._files_of[path] = list(row_groups_of(metadata, path))
        return self._files_of[path]

    def _group(self, part: RowGroup[str]) -> OpenGroup:
        return OpenGroup(f"{self._url}/{part.file}", self._open(part.file), part.group, self._columns)

    def _open(self, path: str) -> pq.ParquetFile:
        """A published file. The file that was opened last stays open, because its row groups are read in order."""
        if self._last is None or self._last[0] != path:
            self._last = path, self._opened(path)
        return self._last[1]

    def _opened(self, path: str) -> pq.ParquetFile:
        where = f"{self._url}/{path}"
        with lake_errors(where):
            files, inside = arrow_file_system(where)
            try:
                return pq.ParquetFile(inside, filesystem=files, metadata=self._metadata.get(path))
            except FileNotFoundError as error:
                raise LakeUnavailableError("a published file is gone", file=where) from error


def _names_in_file(columns: Iterable[str], stored: Iterable[pa.Field], logged: pa.Schema | pa.StructType) -> list[str]:
    wanted = set(map(fold_name, columns))
    return [field.name for field in stored if fold_name(plain_name(_as_logged(field, logged))) in wanted]


def _before(schema: pa.Schema, definition: TableDefinition) -> pa.Schema:
    """The columns of images before."""
    wanted = _columns_before(definition)
    return pa.schema([field for field in schema if field.name in wanted]) if wanted else schema


def _columns_before(definition: TableDefinition) -> list[str]:
    """The columns that are needed of images before; empty if all are needed, because nothing else identifies a row.
    What generated columns are made of tells whether an image may lack these: see `refuse_unlogged_values`."""
    key, end = key_columns(definition), end_column(definition)
    if not key:
        return []
    sources = [column_name(name) for name in unlogged_sources(definition)]
    return list(dict.fromkeys([*key, *([] if end is None else [end]), *sources]))


def _as_logged(field: pa.Field, logged: pa.Schema | pa.StructType) -> pa.Field:
    """A column of a file, or of what was read from it, as it is in the table's log."""
    at = logged.get_field_index(field.name)
    if at < 0:
        return field
    logged_field = logged.field(at)
    if not pa.types.is_struct(field.type):
        return logged_field
    inside = [_as_logged(child, logged_field.type) for child in field.type]
    return pa.field(field.name, pa.struct(inside), logged_field.nullable, logged_field.metadata)


def _split(rows: pa.Table, which: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """The selected rows, and the others. No row is copied if the selected rows come first, as in files of one slice."""
    count = pc.sum(which).as_py() or 0
    if pc.all(which.slice(0, count)).as_py():
        return rows.slice(0, count), rows.slice(count)
    return rows.filter(which), rows.filter(pc.invert(which))


def _parts_of_one(held: pa.Table, parts: Iterable[RowGroup[str]]) -> list[RowGroup[str]]:
    """The row groups that continue the one transaction whose changes are held; none if they do not follow them."""
    seqs, rows = pc.min_max(held["_seq"]).as_py(), pc.min_max(held["_row"]).as_py()
    own = list(takewhile(lambda part: part.low == seqs["max"], parts))
    if seqs["min"] != seqs["max"]:
        return []
    last = rows["max"]
    for part in own:
        # If it has several transactions, these bounds are of all: the last row group begins with the end of this one.
        if part.high == part.low and part.first_row <= last:
            return []
        last = max(last, part.last_row)
    return own if sum(part.high > part.low for part in own) <= 1 else []
