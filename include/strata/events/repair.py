"""Puts a landing folder in order before a landing: leftovers of a killed one go, lost indexes are made again.
Not here: segments themselves, which are never changed once they have their name."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from strata.errors import StreamHoleError
from strata.events.index import SUFFIX, IndexWriter, Resume, SegmentIndex, SegmentSummary
from strata.events.model import PreviousGtids
from strata.events.parse import parse_event
from strata.events.recorder import StreamEnd
from strata.events.transactions import scan_transactions
from strata.gtid.clock import CommitClock
from strata.gtid.sets import GtidSet, GtidSetBuilder
from strata.wire.files import BinlogFile, open_binlog
from strata.wire.frames import index_events
from strata.wire.segment import SegmentName, remove_leftovers, storage_errors

if TYPE_CHECKING:
    from strata.wire.storage import Folder


def repair_landing(folder: Folder) -> None:
    """Needs the folder's lock.

    Raises:
        LakeUnavailableError: The storage does not answer.
        CorruptEventError: A segment without index is damaged.
        StreamHoleError: A segment lost its index and its predecessor.
    """
    remove_leftovers(folder)
    names = folder.names()
    segments = [parsed for name in names if (parsed := SegmentName.parse(name))]
    indexed = {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
    for orphan in indexed - {str(name) for name in segments}:
        folder.delete(f"{orphan}{SUFFIX}")
    end: StreamEnd | None = None
    for at, name in enumerate(segments):
        if str(name) in indexed:
            continue
        if at == 0 and name.ordinal > 1:
            raise StreamHoleError(
                "the first segment has lost its index, and those before it, which tell how it is numbered, are gone",
                file=folder.join(str(name)),
                remedy="Restore the index from a backup of the lake, or land the source anew under another name.",
            )
        if at > 0 and (end is None or end.ordinal != segments[at - 1].ordinal):
            before = SegmentIndex.open(folder, f"{segments[at - 1]}{SUFFIX}")
            end = StreamEnd.of(before.summary, segments[at - 1].ordinal)
        end = rebuild_index(folder, name, end or StreamEnd())


def rebuild_index(folder: Folder, name: SegmentName, after: StreamEnd) -> StreamEnd:
    """Makes the index of a segment from its bytes.

    Args:
        folder: The landing folder.
        name: The segment.
        after: The stream in front of it; what its own PREVIOUS_GTIDS says counts for the first of a stream.

    Raises:
        CorruptEventError: The segment is damaged.
        LakeUnavailableError: The storage, or this machine's temporary folder, refuses or is full.
    """
    with (
        open_binlog(folder.join(str(name))) as binlog,
        storage_errors(folder),
        tempfile.TemporaryDirectory(prefix="strata-") as place,
    ):
        before = after.executed if after.ordinal else _previous(binlog)
        executed, clock = GtidSetBuilder(before), CommitClock(after.clock)
        path, transactions, resume = f"{place}/index", 0, after.resume
        writer = IndexWriter(path)
        try:
            for batch in scan_transactions(binlog, first_seq=after.seq + 1, clock=clock):
                writer.write(batch)
                batch.add_to(executed)
                transactions += len(batch)
                if (batch.slots < 0).any():
                    resume = Resume.FILE
            summary = SegmentSummary(
                segment=str(name),
                binlog_file=name.binlog_file,
                server_uuid="",
                bytes=len(binlog.buffer),
                first_seq=after.seq + 1,
                transactions=transactions,
                clock_before=after.clock,
                clock_after=clock.now,
                server_end=0,
                executed_before=str(before),
                executed=str(executed.build()),
                resume=resume,
            )
            writer.close(summary)
        finally:
            writer.abandon()
        folder.write(f"{name}{SUFFIX}", Path(path).read_bytes())
    return StreamEnd.of(summary, name.ordinal)


def _previous(binlog: BinlogFile) -> GtidSet:
    index = index_events(binlog.buffer, binlog.first_event, len(binlog.buffer), binlog.format, 2)
    for position, length in zip(index.positions.tolist(), index.lengths.tolist(), strict=True):
        event = parse_event(binlog.buffer, position, length, binlog.format)
        if isinstance(event, PreviousGtids):
            return event.gtid_set
    return GtidSet()
