"""The parts of binlog files that have been tracked: parts are opened and closed while the stream is read.
Not here: the stream (`track.py`), looking up the part of a position (`schema/history/historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.history.versions import TrackedFile

if TYPE_CHECKING:
    from strata_cdc.binlog.sources.file_start import FileStart
    from strata_cdc.position.sets import GtidSetBuilder
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import TrackedPosition


class OpenFile(Struct):
    """A file that is being tracked."""

    start: FileStart
    seen: GtidSetBuilder
    """The GTID set that its server had executed, up to the first new transaction."""
    begin_pos: int | None = None
    """Start of the part that is being tracked; None until a new transaction comes."""
    first_seq: int = 0
    gtid_before: str = ""
    skipped_to: int | None = None
    """Offset after the last transaction that had been tracked before; None if there was none."""


class TrackedParts:
    """The parts of one source's files."""

    def __init__(self, store: VersionStore, source: str) -> None:
        self._store = store
        self._source = source
        self.closed: list[TrackedFile] = []
        """Parts that are not stored yet."""

    def open(self, file: OpenFile, position: int, at: TrackedPosition, executed: GtidSetBuilder) -> None:
        """A transaction at an offset of the file is new: begins a part if none is open."""
        if file.begin_pos is not None:
            return
        reached = self._reached(file)
        file.begin_pos = file.start.begin_pos if reached is None else reached
        if file.skipped_to is not None and reached is None:
            # A replica's file that begins with transactions that were tracked from another server.
            file.begin_pos = position
        file.first_seq = at.seq + 1
        file.gtid_before = str(executed.build())

    def close(self, file: OpenFile, end_pos: int, at: TrackedPosition, executed: GtidSetBuilder) -> bool:
        """The file ends; returns whether there is a part to store."""
        if file.begin_pos is None:
            reached = self._reached(file)
            is_known = reached is not None and end_pos <= reached
            if is_known or (file.skipped_to is not None and reached is None):
                return False
            self.open(file, end_pos, at, executed)
        if (file.begin_pos or 0) >= end_pos:
            return False
        self.closed.append(_part(file, end_pos, at, executed))
        return True

    def so_far(self, file: OpenFile | None, at: TrackedPosition, executed: GtidSetBuilder) -> list[TrackedFile]:
        """Closes the part of the open file at this position; what follows becomes a separate part."""
        if file is None or file.begin_pos is None or at.seq < file.first_seq:
            return []
        part = _part(file, at.binlog_pos or 0, at, executed)
        file.begin_pos, file.first_seq = part.end_pos, at.seq + 1
        file.gtid_before = part.gtid_executed
        return [part]

    def _reached(self, file: OpenFile) -> int | None:
        """Offset up to which this same file had been tracked before; None if it had not."""
        found = self._store.files(self._source, file.start.binlog_file)
        parts = [part for part in found if part.identity == file.start.identity]
        return parts[-1].end_pos if parts and file.start.begin_pos <= parts[-1].end_pos else None


def _part(file: OpenFile, end_pos: int, at: TrackedPosition, executed: GtidSetBuilder) -> TrackedFile:
    return TrackedFile(
        binlog_file=file.start.binlog_file,
        identity=file.start.identity,
        begin_pos=file.begin_pos or 0,
        end_pos=end_pos,
        first_seq=file.first_seq,
        last_seq=at.seq,
        gtid_before=file.gtid_before,
        gtid_executed=str(executed.build()),
        committed_at=at.committed_at,
    )
