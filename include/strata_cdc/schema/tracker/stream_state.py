"""How far a source's stream has been read: its position, and the file that is being read.
Not here: the schema at that position (`source_schema.py`), which transactions have been read before
(`track.py`), looking up the part of a file with a position (`schema/history/historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.position.executed import ExecutedBuilder, parse_executed
from strata_cdc.schema.history.versions import TrackedFile, VersionPosition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.binlog.sources.file_start import FileStart
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.history.versions import TrackedPosition
    from strata_cdc.schema.tracker.stream import QuietRun, TrackedTransaction


class OpenFile(Struct):
    """The newest file, and the part of it that is being tracked."""

    start: FileStart
    seen: ExecutedBuilder
    """The GTID set that its server had executed, up to the first new transaction."""
    begin_pos: int | None = None
    """Start of the part that is being tracked; None until a new transaction comes."""
    first_seq: int = 0
    gtid_before: str = ""
    skipped_to: int | None = None
    """Offset after the last transaction that had been tracked before; None if there was none."""
    reached: int = 0
    """Offset up to which the file has been read."""
    has_ended: bool = False

    def pass_over(self, transaction: TrackedTransaction) -> None:
        """Passes over a transaction that has been tracked before."""
        self.skipped_to = transaction.end_pos
        if transaction.gtid is not None:
            self.seen.add(transaction.gtid)


class StreamState(Struct):
    """How far a source's stream has been read."""

    position: TrackedPosition
    """Its GTID set is that of the last time it was stored."""
    executed: ExecutedBuilder
    """The GTID set now."""
    gtid_gaps: Executed
    """Numbers of GTIDs below others that had not come when this run began."""
    is_new: bool
    """Whether the stream has not begun."""
    file: OpenFile | None = None
    """None before the first file of a run."""

    @classmethod
    def at(cls, position: TrackedPosition, *, is_new: bool) -> StreamState:
        """The state at the end of what is stored."""
        executed = parse_executed(position.gtid_executed)
        return cls(position, ExecutedBuilder(executed), executed.gaps(), is_new)

    def begin(self, executed: Executed) -> None:
        """Begins the stream after a GTID set."""
        self.is_new = False
        self.executed, self.gtid_gaps = ExecutedBuilder(executed), executed.gaps()
        self.position = replace(self.position, gtid_executed=str(executed))

    @property
    def open_file(self) -> OpenFile:
        """The file that is being read.

        Raises:
            RuntimeError: There is none.
        """
        if self.file is None or self.file.has_ended:
            raise RuntimeError("begin_file comes first")
        return self.file

    def advance(self, transaction: TrackedTransaction, file: OpenFile) -> None:
        """Moves on to the end of a transaction of a file."""
        if transaction.gtid is not None:
            self.executed.add(transaction.gtid)
        seq = transaction.seq if transaction.seq is not None else self.position.seq + 1
        self._move(file, seq, transaction.end_pos, transaction.committed_at)

    def advance_over(self, run: QuietRun, file: OpenFile) -> None:
        """Moves on to the end of consecutive transactions of a file."""
        for sid, span in run.spans:
            self.executed.add_span(sid, span)
        seq = run.last_seq if run.last_seq is not None else self.position.seq + run.count
        self._move(file, seq, run.end_pos, run.committed_at)

    def _move(self, file: OpenFile, seq: int, end_pos: int, committed_at: int) -> None:
        self.position = replace(
            self.position,
            seq=seq,
            binlog_file=file.start.binlog_file,
            binlog_pos=end_pos,
            committed_at=max(self.position.committed_at, committed_at),
        )
        file.reached = end_pos

    def version_position(self, statement_no: int, binlog_pos: int) -> VersionPosition:
        """The position of a statement of the last transaction; 0 is before its first statement."""
        at = self.position
        executed = str(self.executed.build())
        return VersionPosition(at.seq, statement_no, executed, at.committed_at, at.binlog_file, binlog_pos)

    def position_after(self, binlog_file: str | None, binlog_pos: int) -> VersionPosition:
        """The position after the last transaction, before the next one, at an offset of a server's file."""
        at = self.position
        return VersionPosition(at.seq + 1, 0, str(self.executed.build()), at.committed_at, binlog_file, binlog_pos)

    def begin_part(self, file: OpenFile, binlog_pos: int, tracked_to: int | None) -> None:
        """Begins a part of a file, before its first new transaction.

        Args:
            binlog_pos: Offset of the transaction.
            tracked_to: As `tracked_to` returns it.
        """
        file.begin_pos = file.start.begin_pos if tracked_to is None else tracked_to
        if file.skipped_to is not None and tracked_to is None:
            # A replica's file that begins with transactions that were tracked from another server.
            file.begin_pos = binlog_pos
        file.first_seq = self.position.seq + 1
        file.gtid_before = str(self.executed.build())

    def end_file(self, file: OpenFile, end_pos: int, tracked_to: int | None) -> TrackedFile | None:
        """Ends a file at an offset, and returns the part to store; None if there is none. `tracked_to`: as for
        `begin_part`."""
        file.reached, file.has_ended = max(file.reached, end_pos), True
        if file.begin_pos is None:
            is_known = tracked_to is not None and end_pos <= tracked_to
            if is_known or (file.skipped_to is not None and tracked_to is None):
                return None
            self.begin_part(file, end_pos, tracked_to)
        return self._part(file, end_pos) if (file.begin_pos or 0) < end_pos else None

    def part_so_far(self) -> list[TrackedFile]:
        """Ends the part of the open file at this position; what follows becomes a separate part."""
        file = self.file
        if file is None or file.has_ended or file.begin_pos is None or self.position.seq < file.first_seq:
            return []
        part = self._part(file, self.position.binlog_pos or 0)
        file.begin_pos, file.first_seq = part.end_pos, self.position.seq + 1
        file.gtid_before = part.gtid_executed
        return [part]

    def _part(self, file: OpenFile, end_pos: int) -> TrackedFile:
        return TrackedFile(
            binlog_file=file.start.binlog_file,
            identity=file.start.identity,
            begin_pos=file.begin_pos or 0,
            end_pos=end_pos,
            first_seq=file.first_seq,
            last_seq=self.position.seq,
            gtid_before=file.gtid_before,
            gtid_executed=str(self.executed.build()),
            committed_at=self.position.committed_at,
        )


def tracked_to(start: FileStart, parts: Sequence[TrackedFile]) -> int | None:
    """The offset up to which a file was tracked in former runs; None if it was not.

    Args:
        parts: The stored parts of files of its name, in stream order.
    """
    own = [part for part in parts if part.identity == start.identity]
    return own[-1].end_pos if own and start.begin_pos <= own[-1].end_pos else None
