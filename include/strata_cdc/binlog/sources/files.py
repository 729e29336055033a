"""Plain binlog files as a change source.
Not here: landed segments with their indexes (`landing/change_source.py`); a segment without an index is a file like any
other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import EXECUTED_LISTS, HEADER_BYTES
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.binlog.events.model import PreviousGtids
from strata_cdc.binlog.events.parse import parse_event
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.events.salvage import find_whole_transactions
from strata_cdc.binlog.events.transactions import BATCH_EVENTS, scan_transactions
from strata_cdc.binlog.sources.file_start import FileStart
from strata_cdc.binlog.sources.port import FileEnd, LostBytes, Transactions
from strata_cdc.errors import Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import NOTHING, ExecutedBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.sources.port import Item
    from strata_cdc.position.port import Executed

_FIRST_EVENTS: Final = 4
"""PREVIOUS_GTIDS follows FORMAT_DESCRIPTION; in a landed segment a ROTATE may be between them."""
_CREATED_AT: Final = 4 + HEADER_BYTES + 2 + 50
"""Offset of the time of creation in FORMAT_DESCRIPTION, which is 0 unless the server had just started."""


class FileSource:
    """The files of one source from the first to the last."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        skip_corrupt: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
        batch_events: int = BATCH_EVENTS,
    ) -> None:
        """Nothing is opened yet.

        Args:
            paths: Sorted by their numbers if they differ only in these.
            skip_corrupt: Continues after damage, which is yielded as `LostBytes`.
            progress: Called with a file's name, how many of its bytes are done, and its size.
            batch_events: As `scan_transactions` takes it.
        """
        self._paths = in_stream_order(paths)
        self._batch_events = batch_events
        self._skip_corrupt, self._progress = skip_corrupt, progress

    def read_items(self) -> Iterator[Item]:
        """As `ChangeSource.read_items`.

        Raises:
            Usage: The files are of servers of two vendors.
            UnsupportedEventError: A number of MariaDB was set back within a file.
        """
        first: BinlogFile | None = None
        for path in self._paths:
            with open_binlog(path) as binlog:
                first = first or replace(binlog, buffer=binlog.buffer[:0])
                if binlog.format.flavour.vendor is not first.format.flavour.vendor:
                    raise Usage(
                        f"the files are of two kinds of servers: {first.name} is of {first.format.flavour.vendor}, and "
                        f"{binlog.name} of {binlog.format.flavour.vendor}",
                        file=path,
                        remedy="Read the files of each server alone.",
                    )
                yield from self._read_file(binlog)

    def _read_file(self, binlog: BinlogFile) -> Iterator[Item]:
        size = len(binlog.buffer)
        begin_pos = binlog.segment.offset if binlog.segment else 0
        previous = _previous_gtids(binlog)
        executed = ExecutedBuilder(previous or NOTHING)
        yield start_of(binlog, begin_pos, previous)
        # Offsets in a landed segment are not those in the server's file.
        shift = begin_pos - binlog.first_event if binlog.segment else 0
        for span in find_whole_transactions(binlog) if self._skip_corrupt else (None,):
            begin, end = (span.begin, span.end) if span else (None, None)
            for batch in scan_transactions(binlog, begin=begin, end=end, batch_events=self._batch_events):
                batch.refuse_step_back(executed, binlog.path)
                if batch.counts_domains:
                    batch.add_to(executed)
                shift = int(batch.positions[0] - batch.begins[0])
                yield Transactions(batch, lambda: binlog, partial(chain_of, binlog, int(batch.begins[0])))
                self._tell(binlog.name, int(batch.ends[-1]), size)
            if span and span.damage:
                yield LostBytes(span.damage, span.damage.begin + shift, span.damage.end + shift)
        yield FileEnd(size + shift)
        self._tell(binlog.name, size, size)

    def _tell(self, name: str, done: int, size: int) -> None:
        if self._progress is not None:
            self._progress(name, done, size)


def in_stream_order(paths: Sequence[str]) -> list[str]:
    """Files in the order of their numbers, if all have one server's naming; else in the given order.

    Shells sort `binlog.1000000` before `binlog.999999`.
    """
    names = [path.rsplit("/", 1)[-1] for path in paths]
    if all(SegmentName.parse(name) for name in names):
        return [path for _, path in sorted(zip(names, paths, strict=True))]
    try:
        positions = [BinlogPosition.from_offset(name, 0) for name in names]
    except Usage:
        return list(paths)
    stems = {name.rpartition(".")[0] for name in names}
    if len(stems) > 1 or len({position.file_number for position in positions}) < len(paths):
        return list(paths)
    return [path for _, path in sorted(zip(positions, paths, strict=True))]


def start_of(binlog: BinlogFile, begin_pos: int, previous: Executed | None) -> FileStart:
    """Reads the first bytes of a file.

    Args:
        binlog: The file.
        begin_pos: Where it begins in the server's file.
        previous: What the stream has before it.
    """
    buffer = binlog.buffer
    created = int.from_bytes(buffer[_CREATED_AT : _CREATED_AT + 4].tobytes(), "little")
    written = int.from_bytes(buffer[binlog.first_event : binlog.first_event + 4].tobytes(), "little")
    return FileStart(
        binlog_file=binlog.name,
        identity=str(written),
        begin_pos=begin_pos,
        previous=previous,
        created_at=written * 1_000_000,
        # Of a landed segment it may be the start of a file whose first transactions were skipped.
        restarted=created != 0 and binlog.segment is None,
        is_relay_log=binlog.is_relay_log,
    )


def _previous_gtids(binlog: BinlogFile) -> Executed | None:
    index = index_events(binlog.buffer, binlog.first_event, len(binlog.buffer), binlog.format, _FIRST_EVENTS)
    for at in range(len(index)):
        if index.types[at] in EXECUTED_LISTS:
            position, length = int(index.positions[at]), int(index.lengths[at])
            event = parse_event(binlog.buffer, position, length, binlog.format)
            return event.gtid_set if isinstance(event, PreviousGtids) else None
    return None
