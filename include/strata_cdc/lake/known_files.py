"""Which ordinals the store knows of the transactions in a server's files: without GTIDs, a lost lake begins again with
such a file, and everything that lands from there on must have the ordinals that it had.
Not here: rebuilding the lake (`rebuild.py`), proving a server by a segment that is there (`landing/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.events.index import Resume
from strata_cdc.errors import BinlogPurgedError, SourceDivergedError
from strata_cdc.landing.first_landing import FirstMoment
from strata_cdc.landing.last_transaction import NEW_NAME
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import parse_executed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.protocol.server_files import ServerFiles
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.schema.history.versions import TrackedFile


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
    begin, end = (BinlogPosition.of(part.binlog_file, offset) for offset in (part.begin_pos, part.end_pos))
    return (
        record.binlog_file == part.binlog_file
        and begin <= BinlogPosition.of(record.binlog_file, record.binlog_pos) < end
    )
