"""Transactions of a file that the stream has had before: their GTID comes again.
Not here: where events must lie (`places.py`), a tracker that reads the same files again (`schema/tracker/track.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import NUMBERED_GTIDS
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.bytes.pages import forget_pages
from strata_cdc.binlog.events.batch import gtid_spans
from strata_cdc.binlog.events.registry import ServerRegistry
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.binlog.kernels.gtid import GTID_BYTES, read_gtids
from strata_cdc.binlog.kernels.words import Request
from strata_cdc.errors import StrataError
from strata_cdc.position.sets import Gtid

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.kernels.layout import Events
    from strata_cdc.position.executed import ExecutedBuilder

_BATCH_EVENTS: Final = 4096


class Repeat(Struct, frozen=True):
    """A transaction that comes again."""

    gtid: Gtid
    file: str
    """Path of the file that has it again."""
    begin: int
    """Offset of it in there."""
    end: int


def find_repeats(binlog: BinlogFile, seen: ExecutedBuilder, begin: int, end: int) -> Iterator[Repeat]:
    """The transactions between two offsets, where transactions begin, that `seen` has, or that come twice.

    All are added to `seen`. Damage ends the search: the reader of the file reports it.
    """
    servers = ServerRegistry()
    buffer, at = binlog.buffer, begin
    while at < end:
        index = index_events(buffer, at, end, binlog.format, _BATCH_EVENTS)
        events = index.of_types(tuple(NUMBERED_GTIDS))
        gtids = _read_gtids(binlog, events, servers)
        if gtids is None:
            return
        for which in _repeated(servers, gtids, seen):
            gtid, position = Gtid(servers.sids[gtids[which, 0]], int(gtids[which, 1])), int(events.positions[which])
            after = _end_of(binlog, position, end)
            if after is not None:
                yield Repeat(gtid, binlog.path, position, after)
        forget_pages(buffer, at, index.next)
        if index.status != codes.FULL:
            return
        at = index.next


def _read_gtids(binlog: BinlogFile, events: Events, servers: ServerRegistry) -> npt.NDArray[np.int64] | None:
    """Server and number of each GTID event, a row each; None if one of them cannot be read."""
    gtids, key = np.empty((len(events.positions), 2), np.int64), np.zeros(GTID_BYTES, np.uint8)
    number, trailer = 0, binlog.format.checksum_bytes
    while number < len(gtids):
        status, number = read_gtids(binlog.buffer, events, trailer, number, servers.keys, servers.count, key, gtids)
        if status == Request.NEW_SERVER:
            servers.add(key)
        elif status != codes.DONE:
            return None
    return gtids


def _repeated(servers: ServerRegistry, gtids: npt.NDArray[np.int64], seen: ExecutedBuilder) -> list[int]:
    """Which of the GTIDs are not new; all are added to `seen`."""
    sid_numbers, numbers = np.ascontiguousarray(gtids.T)
    spans = list(gtid_spans(tuple(servers.sids), sid_numbers, numbers))
    distinct = sum(last - first + 1 for _, (first, last) in spans)
    if distinct == len(gtids) and not any(seen.overlaps(sid, span) for sid, span in spans):
        for sid, span in spans:
            seen.add_span(sid, span)
        return []
    again = []
    for which, (sid_number, number) in enumerate(gtids.tolist()):
        gtid = Gtid(servers.sids[sid_number], number)
        if seen.contains(gtid):
            again.append(which)
        seen.add(gtid)
    return again


def _end_of(binlog: BinlogFile, begin: int, end: int) -> int | None:
    """Offset after the transaction that begins at `begin`; None if it does not end."""
    try:
        return next((record.end for record in read_transactions(binlog, begin=begin, end=end)), None)
    except StrataError:
        return None


def describe_repeat(repeat: Repeat) -> str:
    """What came again, in one sentence without a full stop."""
    return f"{repeat.file} @ {repeat.begin}: transaction {repeat.gtid} comes again; its rows are given once"
