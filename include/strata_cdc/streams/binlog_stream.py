"""The binlog as the source of a stream: it is opened, its items are tracked, and their transactions chosen.
Not here: where it begins and ends (`opening.py`), where items come from (`live_handover.py`), which transactions are
for the reader (`progress.py`), how their rows are read (`changes/binlog_changes.py`)."""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.sources.port import NothingNew, Transactions
from strata_cdc.changes.binlog_changes import BinlogRows
from strata_cdc.changes.port import SchemaChange, WantedRows
from strata_cdc.changes.prepared_along import PreparedAlong
from strata_cdc.flavour import Vendor
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import NOTHING
from strata_cdc.schema.ddl.context import context_of, lossy_text
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.ddl.named import named_databases, named_tables
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.store.own import own_database
from strata_cdc.streams.filter import filter_of
from strata_cdc.streams.live_handover import LiveHandover, LiveServer
from strata_cdc.streams.opened import OpenedStream
from strata_cdc.streams.opening import open_at
from strata_cdc.streams.port import ChosenTransactions
from strata_cdc.streams.progress import StreamProgress, choose
from strata_cdc.streams.versions import StreamVersions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import sqlalchemy as sa

    from strata_cdc.changes.port import DecodedItem
    from strata_cdc.position.port import Executed
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.live_handover import SourceItem
    from strata_cdc.streams.opening import Opening
    from strata_cdc.streams.progress import ChosenRows
    from strata_cdc.streams.request import StreamRequest

_AGAIN_SECONDS: Final = 1.0
"""The shortest time between two requests for the server's time."""


def open_stream(request: StreamRequest, engine: sa.Engine, stop: Callable[[], bool]) -> OpenedStream | None:
    """Opens a stream.

    Args:
        request: What the reader requests, and of which source.
        engine: The source's store, which must stay open while the stream is read.
        stop: Called while nothing comes; true ends the stream.

    Returns:
        The stream when its source has yielded its first item; None if `stop` ended it before.

    Raises:
        StrataError: As `open_at` and `LiveHandover.read_items`.
    """
    source, server = request.source, LiveServer(request.source.address)
    landed = LandedStream.open(source.lake, source.name)
    opening = open_at(landed, server, request.start, request.until, follow=request.follow)
    own = own_database(engine, landed.servers() or {server.state().uuid})
    versions = StreamVersions(engine, source.name, own)
    after_seq = opening.read_from(landed, versions.tracked.seq)
    wanted = filter_of(request.tables, request.columns, own, folds_names=versions.folds_names)
    rows = BinlogRows(
        WantedRows(versions.lookup, wanted.table, wanted.columns, request.limits), PreparedAlong(landed, after_seq)
    )
    handover = LiveHandover(landed, request.handover, stop, after_seq=after_seq, by_file=opening.by_file)
    items = handover.read_items()
    first = next(items, None)
    if first is None:
        return None
    stream = BinlogSourceStream(request, opening, versions, rows, first, items, stop)
    return OpenedStream(stream, wanted, request)


class BinlogTransactions:
    """What some transactions of an item have done, as `TransactionChanges`."""

    def __init__(self, chosen: ChosenRows, versions: StreamVersions, rows: BinlogRows) -> None:
        """Takes the transactions, the versions, which have tracked them, and the reader of the stream's rows."""
        self._chosen, self._versions, self._rows = chosen, versions, rows

    def schema_changes(self) -> Iterator[SchemaChange]:
        """Yields their statements that are DDL.

        Raises:
            CorruptEventError: A statement cannot be read.
        """
        seqs = self._chosen.transactions.with_statements()
        if not seqs:
            return
        made = self._versions.made_between(seqs[0], seqs[-1])
        batch = self._chosen.item.batch
        form = self._chosen.item.bytes().format
        for record in (batch.record(seq - batch.first_seq) for seq in seqs):
            for number, (_, query, _) in enumerate(self._chosen.item.statements(record), start=1):
                text = lossy_text(query, form.flavour)
                changes = read_ddl_or_gap(text, context_of(query, form))
                if not changes:
                    continue
                mine = made.get((record.seq, number))
                tables = {name for name in named_tables(changes) | (mine.tables if mine else set()) if name.table}
                databases = frozenset(named_databases(changes) or {query.database})
                version = mine.version if mine else None
                yield SchemaChange(record.seq, number, as_one_looks_at(text), databases, frozenset(tables), version)

    def open(self) -> None:
        """Fetches their bytes, and takes what is prepared and not wanted itself."""
        self._rows.pass_over(self._chosen.item, self._chosen.passed)
        if self._chosen.transactions:
            self._chosen.item.bytes()

    def rows(self) -> Iterator[DecodedItem]:
        """Returns their rows, as `BinlogRows.decode`."""
        return self._rows.decode(self._chosen.item, self._chosen.transactions.rows)


class BinlogSourceStream:
    """A source whose first item has been read, from where a reader begins."""

    def __init__(
        self,
        request: StreamRequest,
        opening: Opening,
        versions: StreamVersions,
        rows: BinlogRows,
        first: SourceItem,
        following: Generator[SourceItem],
        stop: Callable[[], bool],
    ) -> None:
        """Nothing has been yielded yet.

        Args:
            request: What the reader requests.
            opening: Where the stream begins and ends in this source.
            versions: The versions of its tables.
            rows: Reads its rows.
            first: The source's first item.
            following: The other items.
            stop: Whether the reader wants nothing more.
        """
        self._request, self._opening, self._versions, self._rows = request, opening, versions, rows
        self._first, self._following, self._stop = first, following, stop
        self._reached = first.reached
        """How far the source has been read."""
        self._progress = StreamProgress.at_begin(first.reached, opening.executed)
        """Where the reader is: after all items that have been yielded completely."""

    def read_transactions(self) -> Generator[ChosenTransactions | None]:
        """Yields the transactions for the reader, as `SourceStream.read_transactions`."""
        end_time, is_over = _EndTime(self._request, self._opening.time), self._is_over()
        items = chain([self._first], self._following)
        while not is_over and (item := next(items, None)) is not None:
            chosen = self._take(item)
            if chosen is not None:
                changes = BinlogTransactions(chosen, self._versions, self._rows)
                yield ChosenTransactions(changes, chosen.transactions, chosen.given)
                self._progress = chosen.progress
            yield None
            is_over = (chosen is not None and chosen.is_last) or self._is_over()
            if isinstance(item.item, NothingNew) and not is_over:
                is_over = end_time.is_over(self._progress, by_file=item.reached.by_file)

    def _take(self, source_item: SourceItem) -> ChosenRows | None:
        """Tracks an item, and chooses its transactions."""
        item, self._reached = source_item.item, source_item.reached
        if isinstance(item, NothingNew):
            self._progress = self._progress.after_head(source_item.reached)
        self._versions.track(item)
        if not isinstance(item, Transactions):
            return None
        if item.batch.last_seq <= self._opening.skip_to and not item.batch.marks:
            self._progress = self._progress.after(item.batch, 0, len(item.batch), source_item.reached)
            return None
        return choose(item, source_item.reached, self._progress, self._opening, self._request)

    def _is_over(self) -> bool:
        """Whether nothing more is to be yielded."""
        at, had = self._progress.at, self._progress.executed
        return self._stop() or self._opening.is_reached(self._reached.seq, had, at.at if at else None)

    def close(self) -> None:
        """Closes the connection to the server."""
        self._following.close()

    @property
    def folds_names(self) -> bool:
        """Whether the server ignores the case of names."""
        return self._versions.folds_names

    @property
    def position(self) -> SourcePosition:
        """The position up to which everything has been read."""
        return self._progress.position(self._request, by_file=self._reached.by_file)

    @property
    def executed(self) -> Executed | None:
        """All transactions up to there; None for a stream by file and offset."""
        return None if self._progress.at else self._progress.executed

    @property
    def last_commit(self) -> int:
        """As `SourceStream.last_commit`."""
        return self._progress.last_commit

    @property
    def tracked_from(self) -> Executed | None:
        """How far the source has been read and tracked; None once that has reached the stream's begin."""
        reached = self._reached.executed
        return None if (self._opening.executed or NOTHING) <= reached else reached

    def definition(self, table: TableName, seq: int | None) -> TableDefinition:
        """As `SourceStream.definition`.

        Raises:
            SchemaGapError: It is not known.
        """
        return self._versions.lookup(table, self._progress.seq if seq is None else seq).definition


class _EndTime:
    """A time at which a stream ends, by the server's clock."""

    def __init__(self, request: StreamRequest, time: int | None) -> None:
        """Takes the time, microseconds UTC; None: the stream ends at no time."""
        self._server, self._time = LiveServer(request.source.address), time
        self._measured_at = -_AGAIN_SECONDS

    def is_over(self, progress: StreamProgress, *, by_file: bool) -> bool:
        """Whether the time has come, and the server has nothing more from before it; sends a request to the server from
        time to time."""
        now = time.monotonic()
        if self._time is None or now - self._measured_at < _AGAIN_SECONDS:
            return False
        self._measured_at = now
        server = self._server.state()
        if server.now < self._time:
            return False
        if server.vendor is Vendor.MARIADB:
            # A transaction may come later with an earlier time: only one that is not before the end shows it.
            return False
        if by_file:
            return progress.at is not None and self._server.end() <= progress.at.at
        return server.executed <= progress.executed
