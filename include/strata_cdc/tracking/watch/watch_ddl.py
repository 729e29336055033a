"""Follows the stream of a live server and reports its DDL: each statement once, also from times without a watcher.
Not here: the stream's transactions (`binlog/sources/live.py`), Airflow's trigger
(`airflow/plugins/replication_watcher.py`), versions (`tracking/track_schema.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.events.batch import add_gtids
from strata_cdc.binlog.events.gtid import stream_request
from strata_cdc.binlog.protocol.replication import BinlogStream, Until
from strata_cdc.binlog.sources.live import LiveSource
from strata_cdc.binlog.sources.port import Transactions
from strata_cdc.errors import SettingsError, SourceDivergedError, SourceUnavailableError
from strata_cdc.landing.history_watch import HistoryWatch
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import ExecutedBuilder, parse_executed
from strata_cdc.schema.ddl.context import context_of, lossy_text
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.ddl.named import named_databases, named_tables
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.store.database import open_store
from strata_cdc.store.notified import NotifiedLedger
from strata_cdc.store.own import own_database
from strata_cdc.tracking.watch.notices import MOST_TABLES, STATEMENT_CHARACTERS, DdlNotice

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.sources.port import Item
    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.ddl.changes import Change

_KEEP_SECONDS = 600.0
"""How often the position is stored while there is no DDL: whatever the server purges up to it has been read."""


class NoticedDdl(Struct, frozen=True):
    """A notice, and the position of the stream after it."""

    notice: DdlNotice
    executed: Executed | None
    """All transactions up to and including its own; None if more notices of its transaction follow."""


class DdlWatch:
    """Watches one source; not for several threads at once."""

    def __init__(self, source: Source, engine: sa.Engine) -> None:
        """Continues at the stored position; a source that was never watched begins with its next transaction."""
        self._source = source
        self._ledger = NotifiedLedger(engine)
        landed = LandedStream.open(source.lake, source.name)
        self._exclude = SYSTEM_DATABASES | own_database(engine, landed.servers())
        self._stream: BinlogStream | None = None
        self._history: HistoryWatch | None = None
        self._items: Iterator[Item] = iter(())
        self._executed: Executed | None = None
        """All transactions up to and including the last one whose notices were returned."""
        self._walked = ExecutedBuilder()
        self._unconfirmed = 0
        self._stored: Executed | None = None
        self._stored_at = time.monotonic()

    @classmethod
    def open(cls, source: str, settings: Settings) -> Self:
        """The watch over a source of the settings; it sends nothing to the server yet.

        Raises:
            SettingsError: The settings switch it off.
            StrataError: The store does not answer.
        """
        watched = settings.source(source)
        if not watched.settings.watch_replication_stream:
            raise SettingsError(
                "the source is not watched", source=source, remedy="Set watch_replication_stream = true for it."
            )
        return cls(watched, open_store(watched.store_url))

    def next(self) -> list[NoticedDdl]:
        """The notices of the next batch of the stream; none if no batch arrives for half a second.

        After an error it may be called again: it connects again, and skips nothing.

        Raises:
            SourceUnavailableError: The server does not answer, or the connection broke.
            SourceDivergedError: The server lacks transactions that have been watched.
            SourceSettingsError: The server executes transactions without a GTID, of which nobody could know whether
                their notices were returned.
            StrataError: As `BinlogStream.read_events`, and of the store.
        """
        try:
            notices = self._connect() if self._stream is None else self._read()
        except BaseException:
            self.close()
            raise
        self._unconfirmed += len(notices)
        if not self._unconfirmed and self._executed is not None and time.monotonic() - self._stored_at > _KEEP_SECONDS:
            self._store(self._executed)
        return notices

    def confirm(self, noticed: NoticedDdl) -> None:
        """Confirms that a notice has arrived where it can no longer be lost: it is not returned again. In order only.

        Raises:
            StrataError: The store does not answer.
        """
        self._unconfirmed -= 1
        if noticed.executed is not None:
            self._store(noticed.executed)

    def close(self) -> None:
        """Ends the connection; another watch returns the notices again that were not confirmed."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _connect(self) -> list[NoticedDdl]:
        stream = self._stream = BinlogStream.open(self._source.address)
        server = stream.state()
        server.require_gtids()
        executed = self._executed
        if executed is None:
            stored = self._ledger.watched(self._source.name)
            executed = server.executed if stored is None else parse_executed(stored)
            if stored is None:
                self._store(executed)
        lacking = executed - server.executed
        if lacking:
            raise SourceDivergedError(
                "the server lacks transactions that have been watched",
                source=self._source.name,
                gtid=str(lacking),
                remedy="Its binlog was reset, or it is another server. Point the connection at a server that has them, "
                "or give the new one a source of its own.",
            )
        self._history = HistoryWatch(self._source.address, server)
        lost = server.purged - executed
        executed |= lost
        self._walked, self._executed = ExecutedBuilder(executed), executed
        items = stream.read_events(stream_request(executed, server.vendor), Until.CLOSED)
        self._items = LiveSource(items, executed, server.uuid).read_items()
        if not lost:
            return []
        text = "the server purged these transactions before they were watched"
        return [NoticedDdl(self._notice(str(lost), 0, server.now, (), text, lost=True), executed)]

    def _read(self) -> list[NoticedDdl]:
        item = next(self._items, None)
        if item is None:
            raise SourceUnavailableError("the server ended the stream", source=self._source.name)
        if isinstance(item, Transactions):
            return self._notices(item)
        if self._history is not None:
            self._history.look(None)
        return []

    def _notices(self, transactions: Transactions) -> list[NoticedDdl]:
        """The DDL of some transactions, in order."""
        batch, begin, notices = transactions.batch, 0, []
        for record in () if batch.is_quiet() else transactions.records():
            if record.ddl_offsets and record.gtid is not None:
                end = record.seq - batch.first_seq + 1
                add_gtids(self._walked, batch.sids, batch.sid_numbers[begin:end], batch.numbers[begin:end])
                begin = end
                notices += self._of_transaction(transactions, record)
        add_gtids(self._walked, batch.sids, batch.sid_numbers[begin:], batch.numbers[begin:])
        self._executed = self._walked.build()
        return notices

    def _of_transaction(self, transactions: Transactions, record: TransactionRecord) -> list[NoticedDdl]:
        notices = []
        for number, (_, query, _) in enumerate(transactions.statements(record), start=1):
            text = as_one_looks_at(lossy_text(query, transactions.bytes().format.flavour))
            tables = self._tables(read_ddl_or_gap(text, context_of(query, transactions.bytes().format)), query.database)
            if tables is not None:
                notice = self._notice(str(record.gtid), number, record.commit_timestamp, tables, text)
                notices.append(NoticedDdl(notice, None))
        # Only a whole transaction is confirmed, with its last notice.
        return [*notices[:-1], replace(notices[-1], executed=self._walked.build())] if notices else []

    def _notice(
        self, gtid: str, number: int, committed_at: int, tables: tuple[str, ...], text: str, *, lost: bool = False
    ) -> DdlNotice:
        """A notice of the statement with this number in its transaction, from 1."""
        source = self._source.name
        name = f"{source}/{gtid}/{number}"
        return DdlNotice(name, source, gtid, committed_at, tables, text[:STATEMENT_CHARACTERS], lost)

    def _tables(self, changes: tuple[Change, ...], default_database: str) -> tuple[str, ...] | None:
        """The first tables that change, at most `MOST_TABLES`; None if none does, or only the server's own tables or
        Strata's."""
        databases = named_databases(changes) or {default_database}
        if not changes or databases <= self._exclude:
            return None
        return tuple(sorted(str(table) for table in named_tables(changes))[:MOST_TABLES])

    def _store(self, executed: Executed) -> None:
        if executed != self._stored:
            self._ledger.put_watched(self._source.name, str(executed))
        self._stored, self._stored_at = executed, time.monotonic()
