"""Reads the changes of one table between two transactions from its change tables: those of all of its names, in the
order in which they happened, in batches.
Not here: what happened besides (`timeline.py`), which changes are wanted (`change_filters.py`).

Of each row group, only the columns that a filter looks at are read first, and the others where it finds a change.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.arrow_columns import no_rows
from strata_cdc.changes.arrow import BEFORE, ROW_FIELDS
from strata_cdc.changes.jsonl import TableLines
from strata_cdc.errors import DamagedFileError
from strata_cdc.mirrors.changes import PublishedChanges, VersionRange
from strata_cdc.past.timeline import ChangeSpan, TableEvent, UnknownChanges
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.state import in_order
from strata_cdc.tables.united import as_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from strata_cdc.mirrors.changes import GroupReader, OpenGroup
    from strata_cdc.past.change_filters import ChangeFilter, ReadFirst
    from strata_cdc.past.timeline import TableTimeline, Timelines
    from strata_cdc.schema.model.definition import TableDefinition, TableName

_FACTS: Final = tuple(field.name for field in ROW_FIELDS)
_ORDER: Final = ("_op", "_seq", "_row")


class TableChangeBatch(Struct, frozen=True):
    """Changes of one version of the table, ordered by (`_seq`, `_row`)."""

    span: ChangeSpan
    """The range that they are in: their definition, and the ids of its columns."""
    changes: pa.Table
    """The table's own columns after the change, as change tables call them (`tables/layout.py`, `column_name`), the
    image before in `_before`, and the facts of `changes/arrow.py`, `ROW_FIELDS`, by position: `_op`, `_gtid`, `_seq`,
    `_row`, `_committed_at`, `_binlog_file`, `_binlog_pos`, `_schema_version`; `_missing` has the columns that a partial
    image lacks, `_invalid` the values that a column's type cannot express."""

    def chunks(self, rows: int = 8192) -> Iterator[TableChangeBatch]:
        """The same in smaller batches, for callers that make Python's objects of them."""
        for begin in range(0, self.changes.num_rows, rows):
            yield TableChangeBatch(self.span, self.changes.slice(begin, rows))

    def images(self) -> tuple[list[dict[str, Any] | None], list[dict[str, Any] | None], list[dict[str, str]]]:
        """Each change's image before and after it, as JSON values by the columns' names; None where there is none.

        Columns that an image lacks are not in it, and neither are documents of which the log only has the change: those
        changes come third.
        """
        lines = TableLines(self.span.name, self.span.definition)
        names = [column.name for column in self.span.definition.columns]
        befores: list[dict[str, Any] | None] = []
        afters: list[dict[str, Any] | None] = []
        documents: list[dict[str, str]] = []
        named = self.changes.rename_columns([*names, BEFORE, *_FACTS])
        for batch in named.to_batches():
            before, after, document = lines.images(batch)
            befores, afters, documents = befores + before, afters + after, documents + document
        return befores, afters, documents


class TableChanges:
    """The changes of tables of one source.

    Args:
        timelines: What happened to its tables.
    """

    def __init__(self, lake: str, timelines: Timelines) -> None:
        self._lake, self._timelines = lake, timelines
        self._opened: dict[TableName, PublishedChanges] = {}

    def read_timeline(
        self, timeline: TableTimeline, wanted: ChangeFilter | None = None
    ) -> Iterator[TableChangeBatch | TableEvent | UnknownChanges]:
        """The changes and events of a timeline, in order.

        A caller who needs all changes calls `TableTimeline.refuse_unknown` first: here, what is not known is a part
        like the others.

        Args:
            timeline: The table, and the range.
            wanted: Which changes; None: all. Events always come.

        Raises:
            PastUnknownError: Of a change, nobody knows whether it is wanted.
            LostTableError: A change table lacks commits that it once had: files were deleted.
            DamagedFileError: A change table has rows of a version that the table did not have.
            LakeUnavailableError: The storage does not answer.
        """
        for part in timeline.parts:
            if isinstance(part, ChangeSpan):
                yield from self.of_span(part, wanted)
            else:
                yield part

    def of_span(self, span: ChangeSpan, wanted: ChangeFilter | None = None) -> Iterator[TableChangeBatch]:
        """The changes of one range, in order, in batches of at most about 160 MB.

        Args:
            span: A range of a timeline.
            wanted: As for `read_timeline`.

        Raises:
            StrataError: As for `read_timeline`.
        """
        for chunk in self._chunks(span, wanted, only_first=False):
            yield TableChangeBatch(span, chunk)

    def looked_at(self, span: ChangeSpan, wanted: ChangeFilter) -> Iterator[pa.Table]:
        """As `of_span`, with the columns alone that the filter looks at, and `_op`, `_seq` and `_row`."""
        yield from self._chunks(span, wanted, only_first=True)

    def _chunks(self, span: ChangeSpan, wanted: ChangeFilter | None, *, only_first: bool) -> Iterator[pa.Table]:
        reader, published = _reader(span, wanted, only_first=only_first), self._timelines.published
        if reader is None or not published.has_changes(span.name, span.after, span.until):
            return
        if span.name not in self._opened:
            known = published.newest_commit(span.name)
            self._opened[span.name] = PublishedChanges(self._lake, self._timelines.source, span.name, known)
        range_ = VersionRange(span.after, span.until, span.version_id, span.definition, span.same_rows)
        for batch in self._opened[span.name].batches(range_, reader=reader):
            for chunk in chain([batch.changes], batch.rest()):
                if chunk.num_rows:
                    yield in_order(chunk)


def _reader(span: ChangeSpan, wanted: ChangeFilter | None, *, only_first: bool) -> GroupReader | None:
    """What reads the wanted changes of a range; None if no change is wanted."""
    if wanted is None:
        return _WholeReader(span.name)
    first = wanted.reads(span)
    return None if first is None else _WantedReader(span, wanted, first, only_first)


class _WholeReader(Struct, frozen=True):
    """Reads changes with whole images and all of their facts."""

    table: TableName

    def read_changes(self, group: OpenGroup, span: VersionRange) -> pa.Table:
        """All changes of a range."""
        rows = group.read_columns(_all_names(group))
        rows = rows.filter(_inside(rows, span))
        _refuse_others(rows, span, self.table)
        return _shaped(rows, span)

    def none(self, span: VersionRange) -> pa.Table:
        """No changes."""
        return no_rows(_change_fields(span.definition))


class _WantedReader(Struct, frozen=True):
    """Reads the changes that a filter wants: whole, or the columns alone that the filter looks at."""

    span: ChangeSpan
    wanted: ChangeFilter
    first: ReadFirst
    only_first: bool

    def read_changes(self, group: OpenGroup, span: VersionRange) -> pa.Table:
        """The wanted changes of a range."""
        if not self._may_have_wanted(group, span):
            return self.none(span)
        chosen, looked_at = self._chosen(group, span)
        if not len(chosen):
            return self.none(span)
        return looked_at if self.only_first else _shaped(group.read_columns(_all_names(group)).take(chosen), span)

    def none(self, span: VersionRange) -> pa.Table:
        """No changes."""
        return no_rows(self._fields(span.definition))

    def _may_have_wanted(self, group: OpenGroup, span: VersionRange) -> bool:
        """Whether a row group may have wanted changes, whatever part of it is in the range."""
        key, without = (group.url, group.number, span.version_id), self.first.without
        if without is not None and key in without:
            return False
        own = self._own()
        if not own or not _is_of_version(group, span.version_id):
            return True
        rows = group.read_columns([*group.paths_after(own), *group.paths_before(own)])
        if self.wanted.may_want(as_schema(rows, _own_schema(span.definition, own)), self.span):
            return True
        if without is not None:
            without.add(key)
        return False

    def _chosen(self, group: OpenGroup, span: VersionRange) -> tuple[pa.Array, pa.Table]:
        """The numbers of the wanted rows in a row group, and what was looked at; of the wanted rows alone, if this is
        all that is read."""
        own = self._own()
        facts = dict.fromkeys((*_ORDER, "_schema_version", *self.first.facts))
        rows = group.read_columns([*group.paths_after(own), *group.paths_before(own), *facts])
        inside = pc.indices_nonzero(_inside(rows, span))
        rows = rows.take(inside) if len(inside) < rows.num_rows else rows
        _refuse_others(rows, span, self.span.name)
        if not rows.num_rows:
            return inside, rows
        if own:
            rows = as_schema(rows, _own_schema(span.definition, own))
        rows = rows.combine_chunks()
        is_wanted = self.wanted.wanted(rows, self.span)
        if self.only_first:
            rows = _fitted(rows.filter(is_wanted), self._fields(span.definition))
        return inside.filter(is_wanted), rows

    def _own(self) -> list[str]:
        return [column_name(name) for name in self.first.own]

    def _fields(self, definition: TableDefinition) -> pa.Schema:
        """The columns of what is read."""
        whole = _change_fields(definition)
        if not self.only_first:
            return whole
        own = [whole.field(name) for name in self._own()]
        facts = dict.fromkeys((*_ORDER, *self.first.facts))
        images = [*own, pa.field(BEFORE, pa.struct(own))] if own else []
        return pa.schema([*images, *(whole.field(name) for name in facts)])


def _all_names(group: OpenGroup) -> list[str]:
    return [name for name in group.file.schema_arrow.names if name not in {"_source", "_interval"}]


def _is_of_version(group: OpenGroup, version_id: int) -> bool:
    """Whether all rows of a row group are of one version, by its bounds."""
    columns = group.file.metadata.row_group(group.number)
    for leaf in range(columns.num_columns):
        column = columns.column(leaf)
        if column.path_in_schema == "_schema_version":
            bounds = column.statistics
            return bounds is not None and bounds.has_min_max and bounds.min == bounds.max == version_id
    return False


def _inside(rows: pa.Table, span: VersionRange) -> pa.Array:
    seqs = rows["_seq"].combine_chunks()
    return pc.and_(pc.greater(seqs, span.after), pc.less_equal(seqs, span.until))


def _refuse_others(rows: pa.Table, span: VersionRange, table: TableName) -> None:
    """Rows of another version than the history has for their transaction would be skipped."""
    others = pc.invert(pc.is_in(rows["_schema_version"], pa.array([span.version_id, *span.same_rows])))
    if pc.any(others).as_py():
        row = rows.filter(others).slice(0, 1)
        raise DamagedFileError(
            f"transaction {row['_seq'][0]} has changes of version {row['_schema_version'][0]}, where the table had "
            f"version {span.version_id}",
            table=str(table),
            remedy="`strata reconcile` compares the change table with the server.",
        )


def _shaped(rows: pa.Table, span: VersionRange) -> pa.Table:
    fields = _change_fields(span.definition)
    return _fitted(as_schema(rows, state_schema(span.definition)), fields) if rows.num_rows else no_rows(fields)


def _change_fields(definition: TableDefinition) -> pa.Schema:
    own = list(state_schema(definition))
    return pa.schema([*own, pa.field(BEFORE, pa.struct(own)), *ROW_FIELDS])


def _own_schema(definition: TableDefinition, names: Sequence[str]) -> pa.Schema:
    return pa.schema([state_schema(definition).field(name) for name in names])


def _fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([rows[field.name].cast(field.type) for field in schema], schema=schema)
