"""Streams for the tracker without binlogs: statements in, transactions with GTIDs out.
Not here: what is tested with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.events.model import Query, QueryContext
from strata_cdc.binlog.sources.file_start import FileStart
from strata_cdc.position.sets import Gtid, GtidSet, Sid
from strata_cdc.schema.tracker.stream import TrackedStatement, TrackedTransaction
from strata_cdc.schema.tracker.track import Tracker

A = "aaaaaaaa-0000-0000-0000-000000000000"
B = "bbbbbbbb-0000-0000-0000-000000000000"
FORMAT = FormatDescription(4, "9.7.4", (), has_checksum=True)
SECOND = 1_000_000


def query(sql: str, database: str = "d") -> Query:
    return Query(database, sql.encode(), 0, QueryContext(server_collation=255))


@dataclass
class Stream:
    """Writes one server's binlog, a transaction after the other, one per second."""

    uuid: str = A
    gno: int = 0
    file: str = "binlog.000001"
    position: int = 157
    created: int = 1
    time: int = 1_700_000_000 * SECOND
    tag: str = ""
    anonymous: bool = False
    executed: GtidSet = field(default_factory=GtidSet)

    def start(self, previous: GtidSet | None = None, file: str | None = None) -> FileStart:
        """The file from its start; or the same file again, for what has come to it since."""
        if file is not None:
            self.file, self.position, self.created = file, 157, self.created + 1
        known = self.executed if previous is None else previous
        return FileStart(self.file, f"{self.uuid}/{self.created}", 0, known, self.time)

    def transaction(self, *statements: str, lost: str | None = None) -> TrackedTransaction:
        gtid = None
        if not self.anonymous:
            self.gno += 1
            gtid = Gtid(Sid(self.uuid, self.tag), self.gno)
            self.executed = self.executed.add(gtid)
        begin, self.position, self.time = self.position, self.position + 100, self.time + SECOND
        found = [
            TrackedStatement(query(sql), FORMAT, begin + 10 * number) for number, sql in enumerate(statements, start=1)
        ]
        return TrackedTransaction(gtid, begin, begin + 100, self.time, statements=found, lost=lost)


def track(store, stream: Stream, *statements: str, source: str = "s", file: str | None = None, **options):
    """Tracks one file with a transaction per statement; '' is a transaction that only changes rows."""
    tracker = Tracker(store, source, **options)
    tracker.begin_file(stream.start(file=file))
    for sql in statements:
        tracker.track(stream.transaction(*([sql] if sql else [])))
    tracker.end_file(stream.position)
    return tracker.finish()
