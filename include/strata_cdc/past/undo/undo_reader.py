"""Reads what a script needs of one table: the chosen changes, changes of some rows, and rows of the past, all with the
columns that the table has while the script changes rows.

Changes are read several times, and never kept.
Not here: which changes are chosen (`table_survey.py`, `choice.py`), what each becomes (`table_outcomes.py`)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import PastUnknownError
from strata_cdc.mirrors.renames import without_invalid
from strata_cdc.past.moment import PastMoment
from strata_cdc.past.timeline import ChangeSpan, TableEvent
from strata_cdc.past.undo.linked import LinkedKeys, OfKeys
from strata_cdc.past.undo.literals import Verbatim
from strata_cdc.past.undo.restored_values import restoring_changes
from strata_cdc.past.undo.row_changes import LoggedChange, NowTable, VersionReader, origin_of
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.partition_rows import in_partitions
from strata_cdc.tables.verbatim import INVALID_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.past.change_filters import ChangeFilter
    from strata_cdc.past.client_statements import ClientStatements
    from strata_cdc.past.table_at import PastTables
    from strata_cdc.past.table_changes import TableChanges
    from strata_cdc.past.timeline import TablePart, TableTimeline
    from strata_cdc.past.undo.choice import Choice
    from strata_cdc.past.undo.row_changes import Image, RowKey
    from strata_cdc.past.undo.schema_undo import SchemaUndo
    from strata_cdc.past.undo.steps import ColumnChoice, Direction
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import HeldRows


class UndoInputs(Struct, frozen=True):
    """What a script is to do, and from where it reads."""

    source: str
    changes: TableChanges
    statements: ClientStatements
    past: PastTables
    choice: Choice
    direction: Direction
    columns: ColumnChoice
    """What an UPDATE sets."""
    held_changes: int
    """How many changes are held with their statements, so that nothing is read or made twice."""


class UndoReader:
    """Reads changes and rows of one table.

    Args:
        timeline: Everything that happened to the table.
        schema: What becomes of statements of DDL on it.
        mirrors: The states before statements that are read already, by ordinal.
    """

    def __init__(
        self,
        inputs: UndoInputs,
        timeline: TableTimeline,
        schema: SchemaUndo,
        mirrors: dict[int, Mirror] | None = None,
    ) -> None:
        self._inputs, self.timeline, self.schema = inputs, timeline, schema
        self._mirrors = {} if mirrors is None else mirrors
        self._readers: dict[tuple[int, int], VersionReader] = {}

    def with_schema(self, schema: SchemaUndo) -> UndoReader:
        """The same table, if other statements of DDL on it are taken back."""
        return UndoReader(self._inputs, self.timeline, schema, self._mirrors)

    @cached_property
    def table(self) -> NowTable:
        """The table for which the statements are."""
        if self.schema.now is None:
            raise self.unknown("the table does not exist now, or its definition is not known")
        return NowTable.from_span(self.schema.now)

    def chosen(self, after: int = 0, until: int | None = None) -> Iterator[LoggedChange]:
        """The chosen changes of a part of the stream: after one transaction, up to another one."""
        if self.schema.now is not None:
            wanted = self._inputs.choice.filter(self.schema.now, self._inputs.statements, self._parts_for)
            yield from self._changes(wanted, lambda _: True, after, until)

    def of_keys(self, linked: LinkedKeys, after: int) -> Iterator[LoggedChange]:
        """The changes of rows with some keys, after a transaction; the keys grow with each that such a row gets."""

        def is_of_keys(change: LoggedChange) -> bool:
            return linked.meets(self.table.keys_of(change))

        yield from self._changes(OfKeys(self.version, self.table.key, linked), is_of_keys, after, None)

    def _changes(
        self, wanted: ChangeFilter, restores: Callable[[LoggedChange], bool], after: int, until: int | None
    ) -> Iterator[LoggedChange]:
        for part in self.timeline.parts:
            if isinstance(part, TableEvent) and after < part.seq and (until is None or part.seq <= until):
                yield from filter(restores, self._restored(part))
            if not isinstance(part, ChangeSpan) or part.until <= after or (until is not None and part.after >= until):
                continue
            end = part.until if until is None else min(part.until, until)
            inside = replace(part, after=max(part.after, after), until=end)
            reader = self.version(part)
            for batch in self._inputs.changes.of_span(inside, wanted):
                yield from reader.changes(batch)

    def _restored(self, event: TableEvent) -> Iterator[LoggedChange]:
        """The values that a statement lost, as changes of rows."""
        inverse = self.schema.restoring(event)
        if inverse is None or event.before is None:
            return
        if event.seq not in self._mirrors:
            self._mirrors[event.seq] = self._inputs.past.rows(event.before.name, PastMoment(event.seq - 1))
        span = replace(event.before, after=event.seq - 1, until=event.seq - 1)
        images = self.images(self._mirrors[event.seq], span)
        yield from restoring_changes(inverse, images, self.table, origin_of(event))

    def version(self, span: ChangeSpan) -> VersionReader:
        """The reader of a range's changes."""
        key = (span.version_id, span.until)
        if key not in self._readers:
            if self.schema.now is None:
                raise self.unknown("the table does not exist now")
            self._readers[key] = VersionReader(span, self.schema.now, self._parts_for(span))
        return self._readers[key]

    def _parts_for(self, span: ChangeSpan) -> tuple[TablePart, ...]:
        return self.schema.parts_for(span, self.timeline.parts)

    def rows(self, name: TableName, span: ChangeSpan, held: HeldRows | None = None) -> Iterator[Image]:
        """The rows of the table after the transaction with which a range ends, or those of some partitions."""
        yield from self.images(self._inputs.past.rows(name, PastMoment(span.until)), span, held)

    def rows_of_keys(self, seq: int, keys: set[RowKey]) -> Iterator[Image]:
        """Rows with some keys as they were after a transaction; none if that is not known."""
        span = self.span_at(seq)
        if span is None:
            return
        try:
            for image in self.rows(span.name, span):
                if self.table.key_of(image) in keys:
                    yield image
        except PastUnknownError:
            # The changes of these rows are skipped, each by name.
            return

    def images(self, mirror: Mirror, span: ChangeSpan, held: HeldRows | None = None) -> Iterator[Image]:
        """The rows of a mirror with the definition of a range."""
        reader = self.version(span)
        names = [column_name(column.name) for column, _ in reader.paths]
        lake_names = {field.name for field in without_invalid(mirror.schema)}
        for rows in mirror.batches([*(name for name in names if name in lake_names), INVALID_COLUMN]):
            batch = rows if held is None else rows.filter(pa.array(in_partitions(rows, span.definition, held)))
            columns = [batch[name].to_pylist() for name in names]
            invalid = batch[INVALID_COLUMN].to_pylist()
            for at in range(batch.num_rows):
                texts = dict(invalid[at] or ())
                values = {
                    ordinal: Verbatim(texts[column.name]) if column.name in texts else columns[ordinal][at]
                    for ordinal, (column, _) in enumerate(reader.paths)
                }
                yield reader.live(values)

    def span_at(self, seq: int) -> ChangeSpan | None:
        """The table's definition after a transaction, in an empty range; None if it is not known."""
        span = None
        for part in self.timeline.parts:
            if isinstance(part, ChangeSpan) and part.after <= seq <= part.until:
                return replace(part, after=seq, until=seq)
            if isinstance(part, TableEvent) and part.seq <= seq:
                span = part.after
        return None if span is None else replace(span, after=seq, until=seq)

    def unknown(self, why: str) -> PastUnknownError:
        """An error that says why there is no statement."""
        return PastUnknownError(
            f"what takes the changes back is not known: {why}",
            source=self._inputs.source,
            table=str(self.timeline.table),
            remedy="`strata schema history` shows what happened to the table.",
        )
