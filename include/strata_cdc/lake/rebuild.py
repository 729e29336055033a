"""Rebuilds a lake that was lost, or completes an older copy: what the server still has lands under the ordinals that
the store knows, and is pending again; what it has purged is blocked for ever.
Not here: whether a lake is the right one (`known_lake.py`), landing (`landing/`)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.events.index import Resume
from strata_cdc.binlog.protocol.replication import BinlogStream
from strata_cdc.clock import now_micros
from strata_cdc.errors import BinlogPurgedError, ErrorFacts, LostTableError, OtherLakeError, SourceDivergedError
from strata_cdc.lake.known_lake import read_mark, write_mark
from strata_cdc.landing.first_landing import FirstMoment
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.last_transaction import NEW_NAME
from strata_cdc.landing.resume_landing import still_has
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.lakes import LakeLedger
from strata_cdc.store.ledgers import IntervalLedger, PublishedLedger
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.tables.lost import open_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.protocol.server_files import ServerFiles
    from strata_cdc.config.settings import Source
    from strata_cdc.schema.history.versions import TrackedFile
    from strata_cdc.store.table_intervals import TableInterval


# Which ordinals the store knows of the transactions in a server's files: without GTIDs, a lost lake begins again with
# such a file, and everything that lands from there on must have the ordinals that it had.
def has_unnumbered(files: Sequence[TrackedFile]) -> bool:
    """Whether some transactions of tracked files have no GTID: as many as the sets have too few."""
    return any(
        (parse_executed(part.gtid_executed) - parse_executed(part.gtid_before)).count()
        < part.last_seq - part.first_seq + 1
        for part in files
    )


def begin_with_file(source: str, files: Sequence[TrackedFile], server_uuid: str, on_server: ServerFiles) -> FirstMoment:
    """The earliest file that has been tracked from its first event on and that the server still has.

    Args:
        files: What was tracked, in the stream's order.
        server_uuid: Of the server: another one has files of the same names.
        on_server: What it has.

    Raises:
        SourceDivergedError: Nothing of what was tracked came from this server.
        BinlogPurgedError: It has none of these files any more.
    """
    mine = [part for part in files if part.identity == server_uuid]
    if not mine:
        raise SourceDivergedError(
            f"the server is {server_uuid}, and the store's knowledge is of another server: transactions without a GTID "
            "cannot be found on another server",
            source=source,
            remedy=f"Point the connection at the old server. {NEW_NAME}",
        )
    clock, seen = 0, set[tuple[str, str]]()
    for part in files:
        file = part.binlog_file, part.identity
        if part.identity == server_uuid and file not in seen and on_server.size(part.binlog_file) is not None:
            return FirstMoment(
                parse_executed(part.gtid_before),
                on_server.first_event(part.binlog_file),
                seq=part.first_seq - 1,
                clock=clock,
                resume=Resume.FILE,
            )
        seen.add(file)
        clock = part.committed_at
    raise BinlogPurgedError(
        f"the server has purged all files of which the store knows the transactions, up to {mine[-1].binlog_file}",
        source=source,
        file=mine[-1].binlog_file,
        remedy=NEW_NAME,
    )


def first_out_of_place(stream: LandedStream, files: Sequence[TrackedFile]) -> TrackedFile | None:
    """The first tracked part of a file whose transactions have not landed under their ordinals, at their position and
    with their time; None if all have."""
    return next((part for part in files if part.first_seq >= stream.first_seq and not _is_there(stream, part)), None)


def _is_there(stream: LandedStream, part: TrackedFile) -> bool:
    if part.last_seq < part.first_seq:
        return True
    if part.last_seq > stream.last_seq or stream.clock_at(part.last_seq) != part.committed_at:
        return False
    ends = [stream.record_at(seq)[1] for seq in (part.first_seq, part.last_seq)]
    if not all(_is_within(part, record) for record in ends):
        return False
    # The next one may have been written when the part was tracked up to here, and not be in it.
    return part.last_seq == stream.last_seq or not _is_within(part, stream.record_at(part.last_seq + 1)[1])


def _is_within(part: TrackedFile, record: TransactionRecord) -> bool:
    begin, end = (BinlogPosition.from_offset(part.binlog_file, offset) for offset in (part.begin_pos, part.end_pos))
    return (
        record.binlog_file == part.binlog_file
        and begin <= BinlogPosition.from_offset(record.binlog_file, record.binlog_pos) < end
    )


_KEPT = (IntervalState.PUBLISHED, IntervalState.FAILED, IntervalState.BLOCKED, IntervalState.DISCARDED)


class LakePlan(Struct, frozen=True):
    """What a lake lacks of what its store calls published, and what becomes of that."""

    source: str
    lake: str
    is_known: bool
    """Whether it is the lake that the store knows."""
    landed_from: int
    """Ordinal of the first transaction that is there, or will be."""
    again: tuple[TableInterval, ...]
    """Are published once more."""
    lost: tuple[TableInterval, ...]
    """Cannot be: nobody has their transactions any more."""
    begin: FirstMoment | None
    """Where landing begins; None where something has landed."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is to be done."""
        return self.is_known and not self.again and not self.lost


def plan_lake(source: Source, engine: sa.Engine) -> LakePlan:
    """Looks at all that the store calls published.

    Raises:
        OtherLakeError: The lake belongs to another store, or the server has nothing that could come again.
        BinlogPurgedError: The same, of a server without GTIDs.
        SourceDivergedError: The server is not the one that landed without GTIDs.
        LostTableError: A change table is damaged.
        StrataError: The lake, the store or the server does not answer.
    """
    ledger = LakeLedger(engine)
    known, mark = ledger.get(source.name), read_mark(source)
    if known is not None and mark is not None and mark != known.lake:
        raise OtherLakeError(
            f"the lake {source.lake} belongs to another store",
            source=source.name,
            remedy="Let `lake` of the settings name the folder that it was, or an empty one.",
        )
    stream = LandedStream.open(source.lake, source.name)
    begin = None
    if not stream.segments and ledger.reached_seq(source.name):
        begin = _begin(source, engine)
    first = begin.seq + 1 if begin else stream.first_seq
    is_known = known is not None and mark == known.lake and begin is None
    again, lost = _pieces_gone(source, engine, first)
    return LakePlan(source.name, source.lake, is_known, first, tuple(again), tuple(lost), begin)


def rebuild_lake(source: Source, engine: sa.Engine) -> LakePlan:
    """Does what `plan_lake` returns. Killed at any time, nothing counts until all of it is done; called again, it
    continues.

    Raises:
        OtherLakeError: What the server has is not what the store knows.
        StrataError: As `plan_lake` and `land_binlog`.
    """
    plan = plan_lake(source, engine)
    if plan.is_whole:
        return plan
    land_binlog(
        source.address,
        lake=source.lake,
        source=source.name,
        segment_bytes=source.segment_bytes,
        begins=(plan.begin,) if plan.begin else (),
    )
    _verify(source, engine)
    ledger = LakeLedger(engine)
    lake, now = read_mark(source) or str(uuid4()), now_micros()
    gone = [(entry.start, entry.full_name) for entry in (*plan.again, *plan.lost)]
    pending = [
        replace(entry, state=IntervalState.PENDING, reason=None, published_rows=0, changed_at=now)
        for entry in plan.again
    ]
    held = [
        replace(entry, state=IntervalState.BLOCKED, reason=_lost(source), published_rows=0, changed_at=now)
        for entry in plan.lost
    ]
    ledger.replace(source.name, lake, gone, (*pending, *held), now=now)
    write_mark(source, engine, lake)
    return plan


def _begin(source: Source, engine: sa.Engine) -> FirstMoment:
    """The earliest position of which the store knows the ordinal, and after which the server has everything."""
    files = SchemaStore(engine).files(source.name)
    with closing(BinlogStream.open(source.address)) as stream:
        server = stream.state()
        if not server.numbers_all or has_unnumbered(files):
            return begin_with_file(source.name, files, server.uuid, stream.files())
    for position in LakeLedger(engine).places(source.name):
        executed = parse_executed(position.gtid_executed)
        if still_has(source.address, server, executed):
            return FirstMoment(executed, seq=position.seq, clock=position.clock)
    raise OtherLakeError(
        "the server has purged all that the store knows of",
        source=source.name,
        gtid=str(server.purged),
        remedy=NEW_NAME,
    )


def _pieces_gone(source: Source, engine: sa.Engine, first_seq: int) -> tuple[list[TableInterval], list[TableInterval]]:
    """What the store calls published and the lake does not have, and what was refused by a table because of that: what
    can come again, and what cannot."""
    versions: dict[TableName, int] = {}
    notes = {(note.interval_start, note.table): note for note in PublishedLedger(engine).list(source.name)}
    begins = {interval.start: interval.after_seq for interval in IntervalLedger(engine).all(source.name)}
    again: list[TableInterval] = []
    lost: list[TableInterval] = []
    for entry in TableIntervalLedger(engine).select(source.name, _KEPT):
        note = notes.get((entry.start, entry.full_name))
        was_refused = entry.reason is not None and entry.reason.error == LostTableError.__name__
        if note is None and not was_refused:
            continue
        name = TableName(entry.database, entry.table)
        if name not in versions:
            output = open_changes(source.lake, source.name, name)
            versions[name] = -1 if output is None else output.version
        if was_refused or (note is not None and versions[name] < note.delta_version):
            (again if begins[entry.start] + 1 >= first_seq else lost).append(entry)
    return again, lost


def _verify(source: Source, engine: sa.Engine) -> None:
    """Whether the transactions have landed under the ordinals that the store knows."""
    stream = LandedStream.open(source.lake, source.name)
    for position in LakeLedger(engine).places(source.name):
        if position.seq < stream.first_seq:
            continue
        if position.seq > stream.last_seq or stream.executed_at(position.seq) != parse_executed(position.gtid_executed):
            raise _out_of_place(source, position.seq, position.gtid_executed)
    files = SchemaStore(engine).files(source.name)
    part = first_out_of_place(stream, files) if has_unnumbered(files) else None
    if part is not None:
        raise _out_of_place(source, part.last_seq, part.gtid_executed or None, file=part.binlog_file)


def _out_of_place(source: Source, seq: int, gtid: str | None, file: str | None = None) -> OtherLakeError:
    return OtherLakeError(
        f"the server has other transactions than the store knows, or in another order: after transaction {seq} it is "
        "not where the store has it",
        source=source.name,
        gtid=gtid,
        file=file,
        remedy="It may be a replica of the server that had landed: point the connection at that one, delete the folder "
        f"landing/{source.name} of the new lake, and run the same again. {NEW_NAME}",
    )


def _lost(source: Source) -> ErrorFacts:
    return OtherLakeError(
        "the lake that had these rows was lost, and the server has purged their transactions",
        source=source.name,
        remedy="They are in backups of the lake, if there are any.",
    ).facts()
