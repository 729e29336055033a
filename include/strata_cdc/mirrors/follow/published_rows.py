"""The published rows of one table for its mirror: which were applied, and which come next.
Not here: how far they are published (`published.py`), reading a change table (`mirrors/changes.py`)."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from strata_cdc.mirrors.changes import PublishedChanges, VersionRange
from strata_cdc.mirrors.ddl_plan import CannotFollowError
from strata_cdc.mirrors.follow.followed import NotYetError
from strata_cdc.mirrors.reduce import rows_of_new_table
from strata_cdc.schema.model.engines import discards_rows
from strata_cdc.tables.verbatim import exact_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from strata_cdc.mirrors.changes import MirrorBatch
    from strata_cdc.mirrors.follow.followed import FollowedSource
    from strata_cdc.mirrors.follow.schema_events import SchemaEvent
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import TableName


class PublishedRows:
    """The published rows of one table.

    Args:
        followed: The source.
        table: The table.
        at_once: How many updates share the memory of the process.
    """

    def __init__(self, followed: FollowedSource, table: TableName, at_once: int = 1) -> None:
        self._followed = followed
        self._table = table
        self._at_once = at_once

    @cached_property
    def changes(self) -> PublishedChanges:
        """The change table as it is when it is first needed.

        Raises:
            LostTableError: It lacks what the ledger has, or is damaged.
            LakeUnavailableError: The storage does not answer.
        """
        followed = self._followed
        known = followed.published.newest_commit(self._table)
        return PublishedChanges(followed.changes_lake, followed.source, self._table, known, followed.limits)

    def batches(self, span: VersionRange) -> Iterator[MirrorBatch]:
        """The changes of a range in which the table has one definition."""
        if discards_rows(span.definition):
            return
        if self._followed.published.has_changes(self._table, span.after, span.until):
            yield from self.changes.batches(span, self._at_once)

    def applied(self, mirror: Mirror, until: int) -> str:
        """The note of the applied files for a commit that brings a mirror to a transaction."""
        known, start_after = mirror.applied_files, self._followed.published.start_after
        seq = mirror.position.seq
        first, last = start_after(seq) if known is None else known.first, start_after(until - 1)
        if first is None or last is None:
            return mirror.snapshot.applied
        return self.changes.applied_files(known, first, last, (seq, until)).text

    def differ_from(self, mirror: Mirror) -> str | None:
        """The reason if an interval that the mirror has applied now has other rows; None if not."""
        applied, published = mirror.applied_files, self._followed.published
        if applied is None or mirror.is_dropped:
            return None
        discarded = published.discarded(self._table, applied.first, applied.last)
        if discarded is not None:
            return discarded
        known = published.newest_commit(self._table)
        if known is not None and known <= applied.version:
            return None
        if self.changes.version <= applied.version or self.changes.still_has(applied):
            return None
        return "an interval that the mirror has applied was published again, with other rows"

    def added_by(self, event: SchemaEvent, change: TableChange) -> Iterable[pa.Table]:
        """The rows that CREATE TABLE ... SELECT has left in the transaction that made the table.

        Raises:
            NotYetError: They are not published yet.
            CannotFollowError: They were discarded; or there are too many of them, and some replace others.
            Usage: An image lacks columns whose values are not known.
        """
        if change.definition is None or not event.is_statement or discards_rows(change.definition):
            return
        published = self._followed.published
        reach = published.reach(self._table, event.before)
        if reach.is_discarded and reach.seq < event.seq:
            raise CannotFollowError(reach.withheld or "")
        if reach.seq < event.seq:
            raise NotYetError(reach.withheld or "it is not published yet")
        span = VersionRange(event.before, event.seq, change.version_id, change.definition)
        if not published.has_changes(self._table, event.before, event.seq):
            return
        parts = (part for batch in self.changes.batches(span) for part in chain([batch.changes], batch.rest()))
        for rows in filter(len, parts):
            yield rows_of_new_table(exact_changes(rows, change.definition), change.definition)
