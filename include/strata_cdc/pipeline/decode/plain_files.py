"""Files that tracking has read to their end and that hold no exceptions, so that decoding need not look for them again.
Not here: what exceptions do to rows (`file_ranges.py`, `binlog/events/repeats.py`), tracking (`schema/tracker/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.sources.file_start import FileStart
from strata_cdc.binlog.sources.port import FileEnd, LostBytes, Transactions
from strata_cdc.changes.commit_times import times_to_keep
from strata_cdc.position.executed import ExecutedBuilder
from strata_cdc.position.sets import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.sources.port import ChangeSource, Item
    from strata_cdc.position.port import Executed


class PlainFile(Struct, frozen=True):
    """A file of whole, undamaged transactions, each of which comes once, takes effect where it is, and has its commit
    time in its first event: none has to do with XA."""

    end: int
    """Its size when it was read (bytes): it may have grown meanwhile."""
    executed: GtidSet
    """The GTIDs of its transactions; an anonymous transaction has none."""

    def is_new(self, seen: Executed) -> bool:
        """Whether a stream that has had `seen` has had none of its transactions."""
        return isinstance(seen, GtidSet) and self.executed - seen == self.executed


class PlainFiles:
    """A change source that passes on another's items, and keeps which files are plain."""

    def __init__(self, source: ChangeSource) -> None:
        """Nothing is read yet."""
        self._source = source
        self.found: dict[str, PlainFile] = {}
        """By path."""

    def read_items(self) -> Iterator[Item]:
        """As `ChangeSource.read_items`."""
        open_file = _PlainFileState()
        for item in self._source.read_items():
            yield item
            if isinstance(item, FileStart):
                open_file = _PlainFileState()
            elif isinstance(item, Transactions):
                open_file.add(item)
            elif isinstance(item, LostBytes):
                open_file.is_plain = False
            elif isinstance(item, FileEnd) and (plain := open_file.plain()) is not None:
                self.found[open_file.path] = plain


class _PlainFileState:
    """What has been read of a file."""

    def __init__(self) -> None:
        self.path = ""
        self.is_plain = True
        self._end = self._numbered = 0
        self._executed = ExecutedBuilder()

    def add(self, item: Transactions) -> None:
        """Adds the next transactions."""
        batch, binlog = item.batch, item.bytes()
        self.path, self._end = binlog.path, len(binlog.buffer)
        # MariaDB's positions do not tell which numbers there are.
        is_plain = not batch.marks and not batch.counts_domains and not times_to_keep(batch).any()
        self.is_plain = self.is_plain and is_plain
        if self.is_plain:
            batch.add_to(self._executed)
            self._numbered += int((batch.sid_numbers >= 0).sum())

    def plain(self) -> PlainFile | None:
        """The file at its end, if it is plain."""
        executed = self._executed.build()
        if not self.path or not self.is_plain or not isinstance(executed, GtidSet):
            return None
        # A GTID that comes twice counts once in the set.
        return PlainFile(self._end, executed) if executed.count() == self._numbered else None
