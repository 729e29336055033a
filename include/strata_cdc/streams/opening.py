"""Finds where a stream begins and ends: a position in what has landed and in what the server has, or the reason why the
position is not available.
Not here: what people write (`positions.py`), reading from there (`live_handover.py`)."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.events.index import Resume
from strata_cdc.binlog.protocol.server_files import FIRST_OFFSET
from strata_cdc.binlog.protocol.server_now import ServerNow
from strata_cdc.binlog.sources.file_start import file_number
from strata_cdc.clock import to_micros
from strata_cdc.errors import BinlogPurgedError, SourceDivergedError, Usage
from strata_cdc.landing.resume_landing import check_history
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.commit_ts import CommitStep, CommitTs
from strata_cdc.position.executed import NOTHING, is_executed
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.schema.history.shell_words import word
from strata_cdc.streams.positions import Begin, Edge, End

if TYPE_CHECKING:
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.binlog.protocol.replication import ServerState
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.position.port import Executed
    from strata_cdc.streams.live_handover import LiveServer
    from strata_cdc.streams.positions import Bound, ServerBound, StreamStart


class Opening(Struct, frozen=True):
    """Which part of a stream a reader gets; it is found before anything is read."""

    begin: Begin
    """Which transactions come after the position."""
    skip_to: int
    """No transaction up to and including this ordinal is yielded."""
    executed: Executed | None
    """What the reader already has, by the position that the reader gave."""
    ends: tuple[End, ...]
    """The stream ends at the first of these."""
    by_file: bool
    """Whether positions are files and offsets, because not all transactions of the stream have a GTID. If nothing shows
    this yet, the server may show it when it is read."""

    def read_from(self, landed: LandedStream, tracked_seq: int) -> int:
        """Returns the ordinal after which to read. What has not been tracked is read, too, but it is not yielded.

        Raises:
            Usage: Versions of the source are known, but nothing of it has landed in this lake.
        """
        if not landed.segments:
            if tracked_seq:
                raise Usage(
                    "the source's versions are known, and nothing of it has landed in this lake",
                    source=landed.source,
                    remedy=f"Run `strata land --source {landed.source}` first.",
                )
            return 0
        return max(min(self.skip_to, tracked_seq), landed.first_seq - 1)

    @property
    def time(self) -> int | None:
        """The time at which the stream ends, microseconds UTC."""
        return next((end.time for end in self.ends if end.time is not None), None)

    def stop(self, batch: TransactionBatch, first: int, had: Executed) -> int | None:
        """As `End.stop`."""
        ends = [row for end in self.ends if (row := end.stop(batch, first, had)) is not None]
        return min(ends, default=None)

    def rows(self, batch: TransactionBatch, first: int, stop: int) -> Ints:
        """As `Begin.rows`."""
        return self.begin.rows(batch, max(first, self.skip_to + 1 - batch.first_seq), stop)

    def is_reached(self, seq: int, had: Executed, at: BinlogPosition | None) -> bool:
        """As `End.is_reached`."""
        return any(end.is_reached(seq, had, at) for end in self.ends)


class _ServerOnce:
    """The server, whose state is requested once, when it is needed."""

    def __init__(self, live: LiveServer, *, by_file: bool) -> None:
        self.live = live
        self.by_file = by_file

    @cached_property
    def state(self) -> ServerState:
        """As `LiveServer.state`."""
        state = self.live.state()
        self.by_file |= not state.numbers_all
        return state

    def now(self, landed: LandedStream) -> Executed | BinlogPosition:
        """Returns the position after everything that it has executed.

        Raises:
            SourceDivergedError: It lacks what has landed, so that its position is none of the stream's.
        """
        check_history(self.live.address, landed, self.state)
        return self.live.end() if self.by_file else self.state.executed


def open_at(
    landed: LandedStream, server: LiveServer, start: StreamStart, until: Bound | None, *, follow: bool
) -> Opening:
    """Finds where a stream begins and ends. It connects to the server only if the landed segments do not answer this.

    Args:
        landed: What has landed of the source.
        server: The live server.
        start: Where to begin.
        until: Where to end.
        follow: Whether the reader waits for new changes.

    Raises:
        BinlogPurgedError: The position is before everything that is available; the message has the earliest position.
        SourceDivergedError: The position is after what the server has executed, or never was in this stream.
        Usage: The position means nothing in this stream: a file and offset that the server has not written, or where no
            event begins.
        StrataError: The server or the lake does not answer.
    """
    server_once = _ServerOnce(server, by_file=bool(landed.segments) and landed.has_anonymous())
    if isinstance(start, ServerNow):
        if not landed.executed() <= start.executed:
            server_once.now(landed)
        start = (start.end or server.end()) if server_once.by_file else start.position
    position = server_once.now(landed) if start is Edge.NOW else _of_server(landed, server_once, start)
    end = None if until is None else _of_server(landed, server_once, until)
    if isinstance(position, datetime) and not landed.segments and end is not Edge.LANDED:
        _refuse_before_kept(landed.source, server_once, to_micros(position))
    skip_to, begin, executed = _find_start(landed, server_once, position)
    ends = _find_end(landed, server_once, end, follow=follow)
    return Opening(begin, skip_to, executed, ends, server_once.by_file)


def _of_server(landed: LandedStream, server: _ServerOnce, bound: Bound) -> ServerBound:
    position = bound.position if isinstance(bound, SourcePosition) else bound
    if isinstance(position, CommitTs) or isinstance(bound, CommitStep):
        raise Usage(
            "the position is one of a TiCDC sink, a commit timestamp of TiDB, and the source is a server",
            source=landed.source,
            remedy="Begin with `--from beginning`, or at a time.",
        )
    if is_executed(position) and position:
        _refuse_other_family(landed, server, position)
    return bound


def _refuse_other_family(landed: LandedStream, server: _ServerOnce, position: Executed) -> None:
    """Refuses a position that a server of this kind never reaches: a stream up to it would not end."""
    known = landed.executed() or server.state.executed
    if known and type(known) is not type(position):
        kinds = ("MySQL", "MariaDB") if isinstance(known, GtidSet) else ("MariaDB", "MySQL")
        raise Usage(
            f"the source is a {kinds[0]} server, and {str(position)[:60]} is a position of {kinds[1]}",
            source=landed.source,
            remedy="Give a time, or a token of its stream.",
        )


def _find_start(landed: LandedStream, server: _ServerOnce, start: ServerBound) -> tuple[int, Begin, Executed | None]:
    first = landed.first_seq - 1
    if isinstance(start, Edge):
        return (landed.last_seq if start is Edge.LANDED else first), Begin.from_bound(None), None
    position = start.position if isinstance(start, SourcePosition) else start
    if isinstance(position, datetime):
        if landed.segments:
            _refuse_before_landed(landed, to_micros(position))
        return (landed.seq_before(to_micros(position)) if landed.segments else 0), Begin.from_bound(position), None
    if is_executed(position):
        executed = start.executed() if isinstance(start, SourcePosition) else position
        return _after_set(landed, server, position, executed or position), Begin.from_bound(start), position
    if isinstance(position, FilePosition):
        return _after_file(landed, server, position.at, position.server_uuid), Begin.from_bound(start), None
    if isinstance(position, BinlogPosition):
        return _after_file(landed, server, position), Begin.from_bound(start), None
    raise TypeError(f"a stream cannot begin at {type(position).__name__}")


def _after_set(landed: LandedStream, server: _ServerOnce, position: Executed, executed: Executed) -> int:
    """The last ordinal such that a set has all transactions up to it."""
    _refuse_missing(landed, position, server)
    ahead = executed - landed.executed()
    lost = ahead - server.state.executed if ahead else NOTHING
    if lost:
        raise SourceDivergedError(
            "the server has not executed the transactions of the position",
            source=landed.source,
            gtid=str(lost),
            remedy="A replica may be late: wait for it with `strata_cdc.tokens.wait`. If the server's binlog was "
            "reset, or a backup was restored, it no longer has the history of the position: land it under another "
            "source name.",
        )
    if not landed.segments or landed.executed() <= position:
        return landed.last_seq
    return landed.last_that(lambda seq: landed.executed_at(seq) <= position)


def _refuse_missing(landed: LandedStream, position: Executed, server: _ServerOnce) -> None:
    earliest = landed.executed_before() if landed.segments else server.state.purged
    gone = earliest - position
    if not gone:
        return
    raise BinlogPurgedError(
        "the transactions after the position are no longer stored anywhere; the earliest position that can still be "
        f"read is after {earliest}",
        source=landed.source,
        gtid=str(gone),
        remedy=f"`strata stream --source {landed.source} --from beginning` begins there. Load what is missing once "
        "more, from a dump or a mirror.",
    ).beginning(earliest)


def _refuse_before_kept(source: str, server: _ServerOnce, time: int) -> None:
    """Refuses a time of which the server has purged transactions, or may have purged some; nothing has landed."""
    oldest = server.live.oldest()
    if oldest is not None and time < oldest.complete_from:
        raise _early(source, oldest.first_commit, oldest.complete_from)


def _refuse_before_landed(landed: LandedStream, time: int) -> None:
    """Refuses a time before the first landed transaction, if there were other transactions before that one."""
    if not _lacks_earlier(landed) or landed.last_seq < landed.first_seq:
        return
    first = landed.record_at(landed.first_seq)[1]
    earliest = min(landed.clock_at(landed.first_seq - 1) or first.committed_at, first.committed_at)
    if time <= earliest and time != first.committed_at:
        raise _early(landed.source, first.committed_at, first.committed_at, str(first.gtid) if first.gtid else None)


def _lacks_earlier(landed: LandedStream) -> bool:
    """Whether there were transactions before the landed ones; without GTIDs, the number of the file shows it."""
    if landed.executed_before() or landed.first_seq > 1:
        return True
    return landed.resume is Resume.FILE and file_number(landed.segments[0].name.binlog_file) > 1


def _early(source: str, first: int | None, earliest: int, gtid: str | None = None) -> BinlogPurgedError:
    """The error for a time whose transactions are no longer available.

    Args:
        source: The source's name.
        first: When the first available transaction was committed; None if there is no transaction yet.
        earliest: The time from which on everything is available, microseconds UTC.
        gtid: GTID of the first available transaction.
    """
    had = (
        f"nothing was committed since {_shown(earliest)}"
        if first is None
        else f"the first that can be had was committed at {_shown(first)}"
    )
    return BinlogPurgedError(
        f"transactions of that time are nowhere any more; {had}",
        source=source,
        gtid=gtid,
        remedy=f"`strata stream --source {source} --from beginning` begins there.",
    ).beginning(_shown(earliest))


def _after_file(landed: LandedStream, server_once: _ServerOnce, at: BinlogPosition, uuid: str = "") -> int:
    """The last ordinal before a position in a server's files. `uuid` is the server's UUID, if the position has it."""
    server = landed.segments[-1].summary.server_uuid if landed.segments else server_once.state.uuid
    if uuid not in ("", server):
        raise _other_server(landed, uuid, server)
    seq, is_known = _landed_position(landed, at) if landed.segments else (0, False)
    if not is_known and (not landed.segments or seq == landed.last_seq or server == server_once.state.uuid):
        _refuse_unwritten(landed, server_once, at, SourceDivergedError if uuid else Usage)
    return seq


def _landed_position(landed: LandedStream, at: BinlogPosition) -> tuple[int, bool]:
    """The last ordinal before a position in the server's files, and whether the landed segments show that an event
    begins there.

    Raises:
        BinlogPurgedError: The position is before everything that has landed.
        Usage: The position is inside an event.
    """
    first, summary = landed.segments[0], landed.segments[-1].summary
    begin = BinlogPosition.from_offset(first.name.binlog_file, first.name.offset)
    if at < begin:
        if at.file == begin.file and _begins_with_file(landed):
            # The position is in the head of the file with which the stream begins.
            return landed.first_seq - 1, False
        raise BinlogPurgedError(
            f"what follows {at} is nowhere any more; the earliest that can be had is at {begin}",
            source=landed.source,
            remedy=f"`strata stream --source {landed.source} --from beginning` begins there.",
        ).beginning(begin)
    end = BinlogPosition.from_offset(summary.binlog_file, summary.server_end)
    if at >= end:
        return landed.last_seq, at == end and at.file == end.file
    seq = landed.seq_at_position(at)
    return seq, _is_landed_event(landed, seq, at)


def _begins_with_file(landed: LandedStream) -> bool:
    """Whether what has landed begins with the first event of the stream's first file."""
    first = landed.segments[0]
    return not first.summary.transactions or first.index.record(landed.first_seq).begin == first.name.offset


def _is_landed_event(landed: LandedStream, seq: int, at: BinlogPosition) -> bool:
    """Whether a position in the server's files is the begin of a landed event, or the end of a landed transaction;
    False if it is outside the landed transactions.

    Raises:
        Usage: The position is inside an event.
    """
    if seq < landed.last_seq and (seq + 1 >= landed.first_seq):
        following = landed.record_at(seq + 1)[1]
        if (following.binlog_file, following.binlog_pos) == (at.file, at.offset):
            return True
    if seq < landed.first_seq:
        return False
    segment, record = landed.record_at(seq)
    inside = at.offset - record.binlog_pos
    if record.binlog_file != at.file or inside > record.end - record.begin:
        return False
    if inside < record.end - record.begin and not segment.begins_event(record.begin + inside, at.offset):
        raise _inside_event(landed, at)
    return True


def _refuse_unwritten(
    landed: LandedStream, server: _ServerOnce, at: BinlogPosition, kind: type[SourceDivergedError | Usage]
) -> None:
    """Refuses a position that the server has not written, or where no event begins: it is not known what comes after
    it."""
    files = server.live.files()
    size = files.size(at.file)
    if size is None and at < files.begin:
        if landed.segments:
            # The position is the end of a landed file; the rest of that file is gone.
            return
        raise BinlogPurgedError(
            f"the server has purged what follows {at}; the earliest that can be had is at {files.begin}",
            source=landed.source,
            remedy=f"`strata stream --source {landed.source} --from {word(files.begin)}` begins there.",
        ).beginning(files.begin)
    if size is None or at.offset > size:
        raise kind(
            f"the server has not written {at}; its binlog goes from {files.begin} to {files.end}",
            source=landed.source,
            file=at.file,
            offset=at.offset,
            remedy=f"`--from {word(files.end)}` begins with what comes next, as `--from now` does. If the position is "
            "one of this server, its binlog was reset since.",
        )
    if FIRST_OFFSET < at.offset < size and not server.live.begins_event(at):
        raise _inside_event(landed, at)


def _inside_event(landed: LandedStream, at: BinlogPosition) -> Usage:
    return Usage(
        f"no event begins at {at}",
        source=landed.source,
        file=at.file,
        offset=at.offset,
        remedy=f"`SHOW BINLOG EVENTS IN '{at.file}'` on the server lists where events begin; `strata position` has the "
        "place of a time or a GTID set.",
    )


def _other_server(landed: LandedStream, wanted: str, received: str) -> SourceDivergedError:
    return SourceDivergedError(
        f"the position is one of the files of server {wanted}, and the stream is that of {received}",
        source=landed.source,
        remedy="Without GTIDs nobody can say what it is there. Begin at a time, or at the `beginning`.",
    )


def _find_end(landed: LandedStream, server: _ServerOnce, until: ServerBound | None, *, follow: bool) -> tuple[End, ...]:
    if until is Edge.LANDED:
        return (End.from_bound(landed.last_seq),)
    if until is Edge.BEGINNING:
        raise Usage("a stream cannot end with the beginning", remedy="`--until` takes what `--from` takes.")
    if until is Edge.NOW or (until is None and not follow):
        return (End.from_bound(server.now(landed)),)
    if until is None:
        return ()
    if isinstance(until, datetime) and landed.segments and to_micros(until) <= landed.clock:
        return (End.from_bound(landed.seq_before(to_micros(until))),)
    end = End.from_bound(until)
    executed = until.executed() if isinstance(until, SourcePosition) else until
    if follow or (is_executed(executed) and landed.segments and executed <= landed.executed()):
        return (end,)
    return end, End.from_bound(server.now(landed))


def _shown(time: int) -> str:
    from strata_cdc.streams.transaction_texts import time_text  # noqa: PLC0415  Arrow loads slowly

    return time_text(time)
