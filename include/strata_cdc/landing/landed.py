"""The landed stream of one source: its segments in order, and the look-up of a time, a GTID set or a position in it.
Not here: landing (`landing/land_binlog.py`), the form of an index (`binlog/events/index.py`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, overload

from strata_cdc.binlog.bytes.codes import HEADER_BYTES
from strata_cdc.binlog.bytes.segment import SegmentForm, SegmentName, require_form
from strata_cdc.binlog.events.index import SUFFIX, Resume, SegmentIndex, SegmentSummary
from strata_cdc.binlog.events.xa import UndecidedTransactions
from strata_cdc.binlog.protocol.server_files import begins_at
from strata_cdc.config.source_kinds import no_position
from strata_cdc.errors import SourceSettingsError, StreamHoleError, Usage
from strata_cdc.files.storage import Folder, lake_errors
from strata_cdc.landing.checked import NEWEST, read_newest
from strata_cdc.landing.recent import landed_names
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.executed import NOTHING, parse_executed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.position.binlog_position import ServerPosition
    from strata_cdc.position.port import Executed


def landing_folder(lake: str, source: str) -> Folder:
    """The folder of a source's segments: `<lake>/landing/<source>/`."""
    return Folder.open(lake).folder(f"landing/{source}")


@dataclass(frozen=True)
class LandedSegment:
    """One segment, and its index."""

    folder: Folder = field(repr=False)
    name: SegmentName

    @property
    def url(self) -> str:
        """What `open_binlog` takes."""
        return self.folder.join(str(self.name))

    @cached_property
    def index(self) -> SegmentIndex:
        """The index beside it."""
        return SegmentIndex.open(self.folder, f"{self.name}{SUFFIX}")

    def begins_event(self, place: int, offset: int) -> bool:
        """Whether an event begins at a byte of the segment.

        Args:
            place: Offset in the segment's file, before its end.
            offset: The same byte's offset in the server's file.
        """
        with (
            lake_errors(self.url),
            self.folder.filesystem.open_input_file(f"{self.folder.path}/{self.name}") as file,
        ):
            file.seek(place)
            return begins_at(file.read(HEADER_BYTES), offset)

    @property
    def summary(self) -> SegmentSummary:
        """The index's summary of the segment."""
        return self.index.summary


class _Segments(Sequence[LandedSegment]):
    """Segments by their names, each made when it is requested: there are thousands, and a step needs a few. Only the
    newest are listed at once; the others when one of them is requested."""

    def __init__(self, folder: Folder, source: str) -> None:
        """Lists the newest.

        Raises:
            StreamHoleError: A segment between them is missing.
            LakeUnavailableError: The storage does not answer.
        """
        self._folder, self._source = folder, source
        self._made: dict[str, LandedSegment] = {}
        self._all: list[str] | None = None
        self._known = known = read_newest(folder)
        self._newest = self._whole(landed_names(folder, known.first)) if known else []
        if known is None or self._newest[:1] != [known.first]:
            self._newest = self._all = self._whole(landed_names(folder))

    def list_all(self) -> list[str]:
        """Names of all segments.

        Raises:
            StreamHoleError: A segment between two others is missing.
            LakeUnavailableError: The storage does not answer.
        """
        if self._all is None:
            # What has landed since the first listing is not in the stream.
            last = f"{self._newest[-1]}{SUFFIX}"
            self._all = self._whole([name for name in landed_names(self._folder) if name <= last])
        return self._all

    def _whole(self, names: list[str]) -> list[str]:
        """The segments among the names of files, which must follow each other."""
        segments = _segment_names(names)
        for before, after in pairwise(segments):
            if SegmentName.ordinal_of(after) != SegmentName.ordinal_of(before) + 1:
                raise self._hole(SegmentName.ordinal_of(before) + 1, after, names)
        return segments

    def _hole(self, ordinal: int, after: str, names: list[str]) -> StreamHoleError:
        mine = [name for name in names if name.startswith(f"{ordinal:010d}-") and SegmentName.is_one(name)]
        if mine:
            return StreamHoleError(
                f"segment {ordinal} of the landed stream has no index",
                source=self._source,
                file=self._folder.join(mine[0]),
                remedy=f"`strata land --source {self._source}` makes it again: within the hour, or at once if you "
                f"delete {NEWEST} in this folder.",
            )
        return StreamHoleError(
            f"segment {ordinal} is missing from the landed stream",
            source=self._source,
            file=self._folder.join(after),
            remedy="Restore it from a backup of the lake, or land the source again under another name.",
        )

    def __bool__(self) -> bool:
        return bool(self._newest)

    def __len__(self) -> int:
        return len(self.list_all())

    @overload
    def __getitem__(self, at: int) -> LandedSegment: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[LandedSegment, ...]: ...

    def __getitem__(self, at: int | slice) -> LandedSegment | tuple[LandedSegment, ...]:
        if isinstance(at, slice):
            is_newest = at.start is not None and -len(self._newest) <= at.start < 0 and at.stop is None
            return tuple(self._of(name) for name in (self._newest if is_newest else self.list_all())[at])
        if -len(self._newest) <= at < 0:
            return self._of(self._newest[at])
        return self._of(self._oldest() if at == 0 else self.list_all()[at])

    def _oldest(self) -> str:
        """The first segment; what somebody has put before it since all were looked at is found by `list_all`."""
        known = self._known
        if self._all is None and known is not None and self._folder.exists(f"{known.oldest}{SUFFIX}"):
            return known.oldest
        return self.list_all()[0]

    def first_that(self, holds: Callable[[SegmentSummary], bool]) -> LandedSegment | None:
        """The first segment for which a condition holds that then holds for all later ones; None if there is none.

        Found by bisection, so that few indexes are opened."""
        names, first = self._position_among(holds)
        return self._of(names[first]) if first < len(names) else None

    def from_first_that(self, holds: Callable[[SegmentSummary], bool]) -> Iterator[LandedSegment]:
        """The same segment, and those after it."""
        names, first = self._position_among(holds)
        return map(self._of, names[first:])

    def _position_among(self, holds: Callable[[SegmentSummary], bool]) -> tuple[list[str], int]:
        names = self._newest if self._all is None else self._all
        if self._all is None and holds(self._of(names[0]).summary):
            names = self.list_all()
        return names, bisect_left(names, x=True, key=lambda name: holds(self._of(name).summary))

    def _of(self, text: str) -> LandedSegment:
        if text not in self._made:
            name = SegmentName.parse(text)
            assert name is not None  # noqa: S101  all names were looked at
            self._made[text] = LandedSegment(self._folder, name)
        return self._made[text]


def _segment_names(names: list[str]) -> list[str]:
    """Those of segments with an index."""
    indexed = {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
    return [name for name in names if name in indexed and SegmentName.is_one(name)]


@dataclass(frozen=True)
class LandedStream:
    """All that has landed of a source, in stream order."""

    source: str
    segments: _Segments

    @classmethod
    def open(cls, lake: str, source: str) -> LandedStream:
        """Lists what has landed since a landing last looked at all, and the rest when it is needed; indexes are opened
        when they are needed.

        Raises:
            StreamHoleError: A segment between two others is missing; of segments that are listed later, when they are.
            LakeUnavailableError: The storage does not answer.
        """
        folder = landing_folder(lake, source)
        stream = cls(source, _Segments(folder, source))
        if stream.segments and stream.segments[-1].summary.prepared is None:
            # Imported here: a stream whose indexes have today's form needs no reading of segments.
            from strata_cdc.landing.repair import upgrade_indexes  # noqa: PLC0415  see above

            upgrade_indexes(folder)
            return cls.open(lake, source)
        return stream

    @staticmethod
    def has_begun(lake: str, source: str) -> bool:
        """Whether anything has landed; of a source with many segments without a listing.

        Raises:
            StreamHoleError: As `open`.
            LakeUnavailableError: The storage does not answer.
        """
        folder = landing_folder(lake, source)
        known = read_newest(folder)
        is_there = known is not None and folder.exists(known.first) and folder.exists(f"{known.first}{SUFFIX}")
        return is_there or bool(LandedStream.open(lake, source).segments)

    def require_form(self, form: SegmentForm) -> None:
        """Checks that what has landed is what the source's kind lands.

        Raises:
            SourceSettingsError: It is of the other kind.
        """
        if self.segments:
            last = self.segments[-1]
            try:
                require_form(last.folder, last.name, form)
            except SourceSettingsError as error:
                raise error.located(source=self.source) from None

    def require_whole(self) -> None:
        """Lists all segments.

        Raises:
            StreamHoleError: A segment between two others is missing.
            LakeUnavailableError: The storage does not answer.
        """
        self.segments.list_all()

    def bytes(self) -> int:
        """Of all segments: by one listing of their folder, since their indexes would be a file each.

        Raises:
            StreamHoleError: A segment between two others is missing.
            LakeUnavailableError: The storage does not answer.
        """
        if not self.segments:
            return 0
        names = self.segments.list_all()
        first, last = names[0], names[-1]
        sizes = self.segments[0].folder.stamps(lambda name: first <= name <= last and SegmentName.is_one(name))
        return sum(size for size, _ in sizes.values())

    @property
    def has_server(self) -> bool:
        """Whether a server, or its files, landed; False: the folder of a TiCDC sink."""
        return not self.segments or self.segments[-1].name.form is SegmentForm.BINLOG

    @property
    def last_seq(self) -> int:
        """Ordinal of the last transaction; 0 if nothing has landed."""
        return self.segments[-1].summary.last_seq if self.segments else 0

    @property
    def first_seq(self) -> int:
        """Ordinal of the first transaction that is still in the lake; those before it had landed, and were deleted by
        age."""
        return self.segments[0].summary.first_seq if self.segments else 1

    @property
    def clock(self) -> int:
        """The commit clock at the end, microseconds UTC; 0 if nothing has landed."""
        return self.segments[-1].summary.clock_after if self.segments else 0

    @property
    def resume(self) -> Resume:
        """How a landing continues at the end."""
        return Resume(self.segments[-1].summary.resume) if self.segments else Resume.GTID

    def servers(self) -> frozenset[str]:
        """UUIDs of the servers that the stream comes from: those in its GTIDs, and the server that sent the last
        segment."""
        if not self.segments:
            return frozenset()
        return frozenset({self.segments[-1].summary.server_uuid, *self.executed().servers()})

    def executed(self) -> Executed:
        """GTID set of all that the stream has executed at its end."""
        return parse_executed(self.segments[-1].summary.executed) if self.segments else NOTHING

    def executed_before(self) -> Executed:
        """GTID set of what had been executed before the first transaction that is still in the lake."""
        return parse_executed(self.segments[0].summary.executed_before) if self.segments else NOTHING

    def has_anonymous(self) -> bool:
        """Whether a transaction that is still in the lake has no GTID."""
        numbered = self.executed().count() - self.executed_before().count()
        return numbered < self.last_seq - self.first_seq + 1

    def undecided_at(self, seq: int) -> UndecidedTransactions:
        """XA transactions that are prepared and undecided after the transaction `seq`."""
        after = self.segments.first_that(lambda summary: summary.last_seq > seq) if self.segments else None
        at = len(self.segments) if after is None else self.place_of(after.name)
        undecided = UndecidedTransactions(self.segments[at - 1].summary.prepared or () if at else ())
        if after is not None and after.summary.first_seq <= seq:
            for of, mark in after.index.marks():
                if of <= seq:
                    undecided.apply(of, mark)
        return undecided

    def records(
        self, first_seq: int | None = None, last_seq: int | None = None
    ) -> Iterator[tuple[LandedSegment, TransactionRecord]]:
        """Transactions with first_seq <= seq <= last_seq and the segment that each is in; by default all in the lake.

        Raises:
            StreamHoleError: The first of them have landed, and are no longer in the lake.
        """
        first_seq = self.first_seq if first_seq is None else first_seq
        if last_seq is not None and first_seq > last_seq:
            return
        self._require_present(first_seq)
        for segment in self.segments.from_first_that(lambda summary: summary.last_seq >= first_seq):
            if last_seq is not None and segment.summary.first_seq > last_seq:
                return
            for record in segment.index.records(first_seq, last_seq):
                yield segment, record

    def is_only_of(self, databases: Collection[str], first_seq: int, last_seq: int) -> bool:
        """Whether transactions with first_seq <= seq <= last_seq only change rows of some databases.

        True if there are no such transactions. Stops at the first transaction that does something else.

        Raises:
            StreamHoleError: The first of them have landed, and are no longer in the lake.
        """
        if first_seq > last_seq:
            return True
        return bool(databases) and all(
            record.is_only_rows and all(table.database in databases for table in record.tables)
            for _, record in self.records(first_seq, last_seq)
        )

    def segments_of(self, first_seq: int, last_seq: int) -> tuple[LandedSegment, ...]:
        """The segments that hold transactions with first_seq <= seq <= last_seq; none if there are no such
        transactions.

        Raises:
            StreamHoleError: The first of them have landed, and are no longer in the lake.
        """
        if first_seq > last_seq:
            return ()
        self._require_present(first_seq)
        segments = []
        for segment in self.segments.from_first_that(lambda summary: summary.last_seq >= first_seq):
            if segment.summary.first_seq > last_seq:
                break
            if segment.summary.transactions:
                segments.append(segment)
        return tuple(segments)

    def segments_after(self, seq: int) -> tuple[LandedSegment, ...]:
        """The segments that hold what comes after the transaction `seq`, and those after them."""
        return tuple(self.segments.from_first_that(lambda summary: summary.last_seq > seq)) if self.segments else ()

    def place_of(self, name: SegmentName) -> int:
        """Which of `segments` has this name: they are numbered without a hole."""
        return name.ordinal - SegmentName.ordinal_of(self.segments.list_all()[0])

    def segment_at(self, url: str) -> LandedSegment:
        """The segment with a URL, which must be that of one of the stream's."""
        name = SegmentName.parse(url.rpartition("/")[2])
        if name is None:
            raise ValueError(url)
        return self.segments[self.place_of(name)]

    def seq_before(self, time: int) -> int:
        """Ordinal of the last transaction that the commit clock has before `time` (microseconds UTC); 0 if none."""
        if time > self.clock:
            return self.last_seq
        segment = self.segments.first_that(lambda summary: summary.clock_after >= time)
        assert segment is not None  # noqa: S101  the last one is that late
        return segment.summary.first_seq - 1 + segment.index.count_below("committed_at", time)

    def seq_at(self, executed: Executed) -> int:
        """Ordinal of the last transaction when exactly this set had been executed.

        Raises:
            Usage: The stream never was at this set, or has transactions that no set holds.
        """
        if not self.segments:
            return 0
        if not self.has_server:
            raise no_position(self.source, f"{str(executed) or 'an empty set'!r} is a GTID set")
        if self.has_anonymous():
            raise Usage(
                "the landed stream has transactions without a GTID, so no GTID set names a point of it",
                source=self.source,
                remedy="Name the point by time, or by file and offset.",
            )
        # Each landed transaction has a GTID of its own: the size gives the only possible ordinal, if no number jumps.
        seq = self.first_seq - 1 + executed.count() - self.executed_before().count()
        if isinstance(executed, DomainSet):
            seq = self.last_that(lambda at: self.executed_at(at) <= executed)
        if not self.first_seq - 1 <= seq <= self.last_seq or self.executed_at(seq) != executed:
            raise self._never_at(executed)
        return seq

    def executed_at(self, seq: int) -> Executed:
        """GTID set executed up to and including the transaction `seq`; for 0, what had been executed before the stream.

        Raises:
            Usage: The stream is shorter.
        """
        if seq > self.last_seq:
            raise Usage(f"transaction {seq} has not landed; the last is {self.last_seq}", source=self.source)
        if seq == self.last_seq:
            return self.executed()
        segment = self._holding(seq + 1)
        return segment.index.executed_after(seq - segment.summary.first_seq + 1)

    def clock_at(self, seq: int) -> int:
        """The commit clock after the transaction `seq`, microseconds UTC; 0 for 0.

        Raises:
            StreamHoleError: The transaction is no longer in the lake, nor the transaction after it.
        """
        if self.segments and seq == self.first_seq - 1:
            return self.segments[0].summary.clock_before
        return self.record_at(seq)[1].committed_at if seq else 0

    def seq_at_position(self, position: BinlogPosition) -> int:
        """Ordinal of the last transaction that begins before a position in the server's files.

        Raises:
            Usage: The stream has no such file.
        """
        if not self.has_server:
            raise no_position(self.source, f"{position} is a place in a server's files")
        inside = [
            segment
            for segment in self.segments
            if segment.name.binlog_file == position.file and segment.name.offset <= position.offset
        ]
        if not inside:
            if any(segment.name.binlog_file == position.file for segment in self.segments):
                first = next(segment for segment in self.segments if segment.name.binlog_file == position.file)
                return first.summary.first_seq - 1
            around = _around(self.segments, position)
            if around:
                return around[0].summary.last_seq
            raise Usage(f"nothing has landed from {position.file}", source=self.source)
        # After a failover another server's file may have the same name: the newest file is meant.
        segment = inside[-1]
        return segment.summary.first_seq - 1 + segment.index.count_below("binlog_pos", position.offset)

    def reaches(self, place: ServerPosition) -> bool:
        """Whether everything that a server has written before a position has landed from it, by the end of the
        stream."""
        if not self.segments:
            return False
        last = self.segments[-1].summary
        end = BinlogPosition.from_offset(last.binlog_file, last.server_end)
        return last.server_uuid in ("", place.server_uuid) and end >= place.position

    def seq_written_before(self, place: ServerPosition) -> int:
        """Ordinal of the last transaction that a server has written before a position; everything before it has landed.

        What landed from an earlier server is before the position, and so are files without transactions.
        """
        for segment in reversed(self.segments):
            summary = segment.summary
            if summary.server_uuid not in ("", place.server_uuid):
                return summary.last_seq
            begin = BinlogPosition.from_offset(segment.name.binlog_file, segment.name.offset)
            if begin.file_number < place.position.file_number:
                return summary.last_seq
            if begin <= place.position:
                return summary.first_seq - 1 + segment.index.count_below("binlog_pos", place.position.offset)
        return self.first_seq - 1

    def contained_in(self, executed: Executed, unnumbered: int = 0) -> int:
        """Ordinal of the last transaction that a reader certainly has, with all before it.

        Args:
            executed: GTID set of the transactions that the reader has.
            unnumbered: The reader has the transactions without a GTID up to this ordinal, and those before
                transactions that it has.
        """
        last = self.last_that(lambda seq: self.executed_at(seq) <= executed)
        if not self.has_anonymous():
            return last
        # The GTID set is the same before and after transactions without a GTID.
        first, reached = self.first_seq - 1, self.executed_at(last)
        is_none = self.executed_at(first) == reached
        numbered = first if is_none else self.last_that(lambda seq: self.executed_at(seq) != reached) + 1
        return max(numbered, min(unnumbered, last))

    def last_that(self, holds: Callable[[int], bool]) -> int:
        """The last ordinal for which a condition holds that holds for all before it; if none, the ordinal before the
        first."""
        first = self.first_seq
        return first - 1 + bisect_left(range(first, self.last_seq + 1), x=True, key=lambda seq: not holds(seq))

    def record_at(self, seq: int) -> tuple[LandedSegment, TransactionRecord]:
        """The transaction `seq` and its segment.

        Raises:
            Usage: It has not landed.
        """
        if seq > self.last_seq:
            raise Usage(f"transaction {seq} has not landed; the last is {self.last_seq}", source=self.source)
        segment = self._holding(seq)
        return segment, segment.index.record(seq)

    def _require_present(self, seq: int) -> None:
        """Checks that a transaction that has landed is still in the lake.

        Raises:
            StreamHoleError: It is not.
        """
        if seq >= self.first_seq:
            return
        # Somebody may have restored it.
        self.require_whole()
        if seq < self.first_seq:
            raise StreamHoleError(
                f"transaction {seq} has landed, and its segment was deleted as the settings' `keep_days` and `keep_gb` "
                f"say; the first that is still in the lake is {self.first_seq}, committed at {self._first_time()}",
                source=self.source,
                remedy="Readers of the tables have what was published of it. To decode it again, restore the "
                "segments, or land the source from an archive under another name.",
            )

    def _holding(self, seq: int) -> LandedSegment:
        """The segment of a transaction, which must be in the lake."""
        self._require_present(seq)
        oldest = self.segments[0]
        if seq <= oldest.summary.last_seq:
            return oldest
        segment = self.segments.first_that(lambda summary: summary.last_seq >= seq)
        assert segment is not None  # noqa: S101  callers compare it with the last one
        return segment

    def _first_time(self) -> str:
        """Commit time of the first transaction that is still in the lake."""
        micros = self.segments[0].index.record(self.first_seq).committed_at
        return datetime.fromtimestamp(micros // 1_000_000, UTC).isoformat(sep=" ")

    def _never_at(self, executed: Executed) -> Usage:
        return Usage(
            "the landed stream never was at this GTID set",
            source=self.source,
            gtid=str(executed),
            remedy=f"It goes from {self.executed_before() or 'the empty set'} to {self.executed() or 'the empty set'}.",
        )


def _around(segments: Sequence[LandedSegment], position: BinlogPosition) -> tuple[LandedSegment, LandedSegment] | None:
    """The last two segments between which a file without transactions lies; None if there are none."""
    for before, after in reversed(list(pairwise(segments))):
        first, last = (BinlogPosition.from_offset(segment.name.binlog_file, 0) for segment in (before, after))
        bases = {segment.file.rpartition(".")[0] for segment in (first, position, last)}
        if len(bases) == 1 and first.file_number < position.file_number < last.file_number:
            return before, after
    return None
