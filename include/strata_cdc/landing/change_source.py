"""The landed stream as a change source: from its indexes; a segment is opened only if its bytes are requested.
Not here: which segments there are, and where a position is in them (`landing/landed.py`)."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.binlog.bytes.files import open_extents
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.sources.file_start import FileStart
from strata_cdc.binlog.sources.files import start_of
from strata_cdc.binlog.sources.port import FileEnd, Transactions
from strata_cdc.position.executed import parse_executed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.sources.port import Item
    from strata_cdc.landing.landed import LandedSegment, LandedStream


class LandedSource:
    """The stream after an ordinal, as it is when it is opened. The last segment is given even if nothing in it is new:
    a reader may need to know only that it was read."""

    def __init__(self, stream: LandedStream, after_seq: int = 0) -> None:
        """Nothing is opened yet.

        Args:
            stream: Its segments.
            after_seq: Ordinal of the last transaction that is not wanted.
        """
        self._stream, self._reached = stream, after_seq

    def read_items(self) -> Iterator[Item]:
        """As `ChangeSource.read_items`."""
        # The index of no segment before them is opened: there are thousands.
        for segment in self._stream.segments_after(self._reached) or self._stream.segments[-1:]:
            last_seq = segment.summary.last_seq
            if last_seq > self._reached or segment is self._stream.segments[-1]:
                yield from self._read_segment(segment)
                self._reached = max(self._reached, last_seq)

    def _read_segment(self, segment: LandedSegment) -> Iterator[Item]:
        with ExitStack() as files:
            opened: list[BinlogFile] = []

            def binlog() -> BinlogFile:
                if not opened:
                    opened.append(files.enter_context(open_extents(segment.url, ())))
                return opened[0]

            yield _start_of(segment, binlog if self._reached == 0 else None)
            first_seq = self._reached + 1
            for batch in segment.index.batches(first_seq):
                chain = partial(_chain_of, binlog, int(batch.begins[0]))
                yield Transactions(batch, binlog, chain, first_seq, is_landed=True)
            yield FileEnd(segment.summary.server_end)


def _chain_of(binlog: Callable[[], BinlogFile], begin: int) -> EventChain:
    return chain_of(binlog(), begin)


def _start_of(segment: LandedSegment, binlog: Callable[[], BinlogFile] | None) -> FileStart:
    """Where a segment begins; from its bytes if there is a reader of them, else from its index alone."""
    summary = segment.summary
    previous = parse_executed(summary.executed_before)
    if binlog is not None:
        start = start_of(binlog(), segment.name.offset, previous)
        return replace(start, identity=summary.server_uuid, is_landed=True)
    return FileStart(
        binlog_file=summary.binlog_file,
        identity=summary.server_uuid,
        begin_pos=segment.name.offset,
        previous=previous,
        created_at=summary.clock_before,
        is_landed=True,
    )
