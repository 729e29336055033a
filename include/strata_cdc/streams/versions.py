"""The schema versions of a stream: first what has been tracked in the store, then the DDL of the stream itself. DDL is
tracked before the next row is read.
Not here: where untracked versions are kept (`untracked_ddl.py`), rows (`decoding.py`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from strata_cdc.binlog.sources.file_start import FileStart
from strata_cdc.binlog.sources.port import FileEnd, Transactions
from strata_cdc.changes.port import TableVersion
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.history.versions import TrackedPosition
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.streams.untracked_ddl import UntrackedVersions, shown_id
from strata_cdc.tracking.feed_tracker import take_item

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.binlog.sources.port import Item
    from strata_cdc.schema.history.neighbours import Neighbour
    from strata_cdc.schema.model.definition import TableName


class StatementVersions(NamedTuple):
    """The version that a statement made, and its tables."""

    version: int
    """Its id, as `shown_id` returns it."""
    tables: set[TableName]


class StreamVersions:
    """The versions of one source, as far as its stream has been read."""

    def __init__(self, engine: sa.Engine, source: str, exclude: frozenset[str]) -> None:
        """Continues where the store ends.

        Args:
            engine: The store.
            source: Name of the source.
            exclude: Databases that do not belong to users.
        """
        self._source, self._exclude = source, exclude
        self._stored = SchemaStore(engine)
        self._store = UntrackedVersions(self._stored, source)
        self._ahead: Tracker | None = None
        """Set once something has come that the store does not have: most of what has landed has been tracked in the
        store."""
        self._history = History(self._store, source, self.tracked)
        if self._store.position(source) is None:
            self._track_ahead()
        self._starts: list[FileStart] = []
        """Starts of the file that is being read, and of the files before it without transactions, until the tracker has
        them."""
        self._is_open = False
        self._known = 0
        self._versions: dict[tuple[TableName, int], TableVersion] = {}

    @property
    def tracked(self) -> TrackedPosition:
        """How far the stream has been tracked."""
        known = self._store.position(self._source) if self._ahead is None else self._ahead.position
        return known or TrackedPosition(self._source)

    @property
    def folds_names(self) -> bool:
        """Whether the server takes names of any case for the same."""
        return self.tracked.lower_case_table_names != 0

    def track(self, item: Item) -> None:
        """Takes the next item of the stream; skips what had been tracked before.

        Raises:
            CorruptEventError: A statement cannot be read.
        """
        if isinstance(item, FileStart):
            if self._starts and self._starts[-1].is_landed:
                self._starts.clear()
            self._starts.append(item)
        elif isinstance(item, Transactions):
            if item.batch.last_seq > self.tracked.seq:
                self._take(item, self._ahead or self._track_ahead())
        elif isinstance(item, FileEnd) and self._is_open and self._ahead is not None:
            take_item(self._ahead, item)
            self._is_open = False

    def _track_ahead(self) -> Tracker:
        """Begins to track where the store now ends."""
        self._store = UntrackedVersions(self._stored, self._source)
        self._ahead = Tracker(self._store, self._source, exclude=self._exclude)
        self._history = History(self._store, self._source, self.tracked)
        return self._ahead

    def _take(self, item: Transactions, tracker: Tracker) -> None:
        if item.batch.last_seq <= tracker.position.seq:
            return
        for start in self._starts:
            take_item(tracker, start)
            self._is_open = True
        self._starts.clear()
        take_item(tracker, item)
        if tracker.report.versions != self._known:
            self._known = tracker.report.versions
            tracker.flush()
            # A historian keeps what it has read, so a new one is needed.
            self._history = History(self._store, self._source, self.tracked)

    def lookup(self, table: TableName, seq: int) -> TableVersion:
        """Returns the version of a table for the rows of a transaction.

        Raises:
            SchemaGapError: It is not known.
        """
        tracked = self.tracked
        if tracked is not self._history.tracked:
            self._history = self._history.known_to(tracked)
        version = self._history.at(table, AtSeq(seq))
        known = self._versions.get((table, version.version_id))
        if known is None:
            near = partial(self._neighbours, table, version.version_id)
            known = TableVersion(shown_id(version.version_id), version.definition, near)
            self._versions[table, version.version_id] = known
        return known

    def _neighbours(self, table: TableName, version_id: int) -> tuple[Neighbour, ...]:
        # Of the history as it is by then: what is kept with a version keeps no older one in memory.
        return self._history.neighbours(table, version_id)

    def made_between(self, first_seq: int, last_seq: int) -> dict[tuple[int, int], StatementVersions]:
        """Returns what the statements of consecutive transactions made, by ordinal and number in the transaction."""
        named: dict[int, set[TableName]] = {}
        for entry in self._store.entries_between(first_seq, last_seq):
            named.setdefault(entry.version_id, set()).add(entry.name)
        return {
            (seq, number): StatementVersions(shown_id(version), named.get(version, set()))
            for seq, number, version in self._store.statement_versions(first_seq, last_seq)
        }
