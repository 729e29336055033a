"""Lands the folder of a sink: what was committed since the last landing, in order and each row once, as segments.
Not here: a segment's file (`segment_writer.py`), the order of rows (`windows.py`), what the folder holds (`folder.py`).

The sink deletes its files, so a landed segment is all that later steps read: it never changes, has the rows in the
order of their commits under the version valid at each, the DDL, and the state from which the next landing continues.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from strata_cdc.binlog.bytes.segment import (
    SegmentForm,
    staging_folder,
    storage_errors,
)
from strata_cdc.clock import now_micros
from strata_cdc.errors import AlreadyRunningError, BadData, StrataError
from strata_cdc.files.lock import hold_folder
from strata_cdc.files.storage import Folder
from strata_cdc.landing.cut_segments import LandReport
from strata_cdc.landing.land_state import Doing, LandNotes, LandProgress
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.landing.recorder import StreamEnd
from strata_cdc.landing.repair import LandedKind, LookLimits, repair_landing
from strata_cdc.position.commit_ts import CommitStep, time_of
from strata_cdc.ticdc.crossed_rows import crossed_rows
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.encodings import BinaryForm
from strata_cdc.ticdc.folder import next_state, read_contents
from strata_cdc.ticdc.history import SinkHistory
from strata_cdc.ticdc.landed_rows import LandingState, NewestCrossed, SegmentRows, SinkCounts, take_out_index
from strata_cdc.ticdc.landed_schema import SchemaLog
from strata_cdc.ticdc.limits import SinkLimits
from strata_cdc.ticdc.segment_writer import SegmentWriter
from strata_cdc.ticdc.windows import SinkWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.ticdc.windows import CommitWindow, ReadCounts


ROWS: Final = LandedKind(SegmentForm.ROWS, lambda folder, name, _: take_out_index(folder, name))
"""What lands of a sink: each segment holds its index."""


class SinkLocation(Struct, frozen=True):
    """A sink to land, and where to."""

    url: str
    lake: str
    source: str
    settings: CsvSettings = CsvSettings()
    segment_bytes: int = 256 << 20
    limits: SinkLimits = SinkLimits()
    look: LookLimits = LookLimits()
    """How much of what has landed is looked at."""


def sink_settings(null: str | None, binary_encoding: str | None, time_zone: str | None) -> CsvSettings:
    """What no file of a sink shows; what is not given is as TiCDC has it by default."""
    defaults = CsvSettings()
    return CsvSettings(
        defaults.null if null is None else null,
        BinaryForm(binary_encoding) if binary_encoding else defaults.binary,
        time_zone,
    )


def land_sink(
    sink: SinkLocation,
    wanted: Callable[[TableName], bool] = lambda _: True,
    progress: Callable[[LandProgress], None] | None = None,
) -> LandReport:
    """Lands everything below the sink's checkpoint that has not landed yet.

    If it is killed at any time, what is published stays; the next run continues from there, and duplicates nothing. Of
    two at once the second ends: on one machine before it begins; on an object store, if they are on two machines, with
    the first segment that the other has published.

    Args:
        sink: The folder and the lake.
        wanted: Tables whose rows are landed.
        progress: Called after each window.

    Raises:
        Usage: The folder is no sink, or a setting is missing.
        AlreadyRunningError: Another landing of this source runs.
        StreamHoleError: Files expired before they were landed; nothing was landed.
        BadData: A file cannot be read, or contradicts what was read earlier; everything before it has landed.
        LakeUnavailableError: The storage of the sink or of the lake does not answer, or is full.
    """
    folder = landing_folder(sink.lake, sink.source)
    notes = LandNotes(sink.lake, sink.source, sink.url, Doing.LANDING, progress)
    try:
        with hold_folder(_local_part(folder), f"landing {sink.source}"):
            try:
                if repair_landing(folder, sink.look, ROWS):
                    LandedStream.open(sink.lake, sink.source).require_whole()
                report = _SinkLanding(sink, folder, wanted, notes).run()
            except AlreadyRunningError:
                raise  # the state is that of the other landing
            except StrataError as error:
                notes.fail(error)
                raise
            notes.end()
    except StrataError as error:
        raise error.located(source=sink.source) from error.__cause__
    return report


def _local_part(folder: Folder) -> Folder:
    """Where a landing writes on this machine."""
    if folder.is_local:
        return folder
    with storage_errors(folder):
        return Folder.open(staging_folder(folder))


def landing_state(stream: LandedStream) -> LandingState:
    """Where the landing of a sink continues; the beginning if nothing has landed.

    Raises:
        BadData: The last segment is not as it was written.
        SourceSettingsError: A server's binlog has landed.
        LakeUnavailableError: The storage does not answer.
    """
    if not stream.segments:
        return LandingState()
    stream.require_form(SegmentForm.ROWS)
    return SegmentRows(stream.segments[-1]).contents.state


def landed_until(stream: LandedStream) -> int:
    """The time before which all commits of a sink have landed, microseconds UTC; 0 if nothing has landed.

    Raises:
        DamagedFileError: The last segment is not as it was written.
        LakeUnavailableError: The storage does not answer.
    """
    end = landing_state(stream).end_ts
    return time_of(end) + 1 if end else 0


class _PublishedSegments(Struct):
    """The segments that one landing has published."""

    names: list[str] = field(default_factory=list)
    bytes: int = 0
    transactions: int = 0


class _SinkLanding:
    """One landing."""

    def __init__(
        self, sink: SinkLocation, folder: Folder, wanted: Callable[[TableName], bool], notes: LandNotes
    ) -> None:
        self._begun = time.monotonic()
        self._sink, self._folder, self._notes = sink, folder, notes
        stream = LandedStream.open(sink.lake, sink.source)
        self._before = self._stored = landing_state(stream)
        """Where this landing began, and where the next one would begin by now."""
        last = stream.segments[-1] if stream.segments else None
        self._end = StreamEnd.from_summary(last.summary, last.name.ordinal) if last else StreamEnd()
        self._contents = read_contents(sink.url, self._before.folder, wanted)
        self._history = SinkHistory.from_files(self._contents.schema_files, wanted)
        _refuse_late_versions(self._history, self._before)
        self._log = SchemaLog(self._history, dict(self._before.known))
        begin = CommitStep(self._before.end_ts - 1, is_ddl=True) if self._before.end_ts else CommitStep(0)
        self._reader = SinkWindows(
            self._contents,
            self._history,
            sink.settings,
            begin,
            self._end.seq + 1,
            self._before.folder,
            sink.limits,
            sets_keyless_aside=True,
        )
        self._end_ts, self._last = self._before.end_ts, self._before.last
        self._published = _PublishedSegments()
        self._written = dict(self._reader.versions())
        self._crossed = Counter[tuple[str, str, str]]()
        self._newest = {(last.table, last.kind, last.quadrant): last for last in self._before.counts.newest}

    def run(self) -> LandReport:
        """Lands all windows up to the checkpoint."""
        if self._contents.holes:
            raise self._contents.holes[0]
        with ExitStack() as stack:
            self._writer = self._open(stack)
            for window in self._windows():
                self._add(window, stack)
            if self._writer.transactions or self._has_read_on():
                self._publish()
        self._tell()
        return self._report()

    def _windows(self) -> Iterator[CommitWindow]:
        """The windows; before one that cannot be read everything before it is published."""
        try:
            yield from self._reader.windows()
        except StrataError:
            if self._writer.transactions:
                self._publish()
            raise

    def _add(self, window: CommitWindow, stack: ExitStack) -> None:
        if window.steps:
            crossed = tuple(crossed_rows(window, self._written, self._history))
            for crossing in crossed:
                key = (f"{crossing.database}.{crossing.table}", crossing.kind, crossing.quadrant)
                self._crossed[key] += crossing.rows
                if crossing.row is not None and crossing.made_at is not None:
                    self._newest[key] = NewestCrossed(*key, crossing.row, crossing.made_at)
            self._writer.add(window, self._log.changes(window), crossed)
            self._last = window.steps[-1]
        self._end_ts = window.end_ts
        if self._writer.transactions and self._writer.size >= self._sink.segment_bytes:
            self._publish()
            self._writer = self._open(stack)
        self._tell(self._writer.transactions, self._writer.size)

    def _tell(self, transactions: int = 0, size: int = 0) -> None:
        """Records how far the landing is, beside what is published."""
        landed = self._published.transactions + transactions
        lag = max(0.0, (now_micros() - time_of(self._contents.checkpoint_ts)) / 1e6)
        self._notes.tell(LandProgress(landed, landed, self._published.bytes + size, self._end.clock, lag))

    def _open(self, stack: ExitStack) -> SegmentWriter:
        writer = SegmentWriter(self._folder, self._end, self._last)
        stack.callback(writer.discard)
        return writer

    def _state(self) -> LandingState:
        known = next_state(self._contents, self._reader.read_files(), self._before.folder)
        counts = _counts_after(self._before.counts, self._crossed, self._reader.counts, self._newest.values())
        return LandingState(self._sink.url, known, self._end_ts, dict(self._log.known), counts, self._last)

    def _has_read_on(self) -> bool:
        """Whether files have been read to their end: later they may expire."""
        return self._state().folder.sequences != self._stored.folder.sequences

    def _publish(self) -> None:
        writer = self._writer
        self._stored = self._state()
        summary = writer.publish(self._stored)
        self._end = StreamEnd.from_summary(summary, writer.name.ordinal)
        self._published.names.append(summary.segment)
        self._published.bytes += summary.bytes
        self._published.transactions += summary.transactions

    def _report(self) -> LandReport:
        names = self._published.names
        return LandReport(
            source=self._sink.source,
            segments=len(names),
            first_segment=names[0] if names else None,
            last_segment=names[-1] if names else None,
            bytes=self._published.bytes,
            transactions=self._published.transactions,
            last_seq=self._end.seq,
            executed_before="",
            executed="",
            gtid_executed="",
            clock=self._end.clock,
            seconds=round(time.monotonic() - self._begun, 3),
        )


def _counts_after(
    before: SinkCounts,
    crossed: Counter[tuple[str, str, str]],
    reader: ReadCounts,
    newest: Iterable[NewestCrossed],
) -> SinkCounts:
    """What has been counted since the first landing."""
    rows = Counter({(table, kind, quadrant): count for table, kind, quadrant, count in before.crossed}) + crossed
    dropped = Counter({(table, column): count for table, column, count in before.dropped}) + reader.quadrants.dropped
    return SinkCounts(
        tuple((*key, count) for key, count in sorted(rows.items())),
        dict(sorted((Counter(before.repeats) + reader.repeats).items())),
        tuple((*key, count) for key, count in sorted(dropped.items())),
        tuple(sorted(newest, key=lambda crossed: (crossed.table, crossed.kind, crossed.quadrant))),
    )


def _refuse_late_versions(history: SinkHistory, before: LandingState) -> None:
    """Checks that no schema file has come for rows that have landed: they would have had another schema.

    Raises:
        BadData: One has.
    """
    known = before.folder.schema_digests
    for table in history.tables.values():
        for last, version in zip(table.versions, table.versions[1:], strict=False):
            is_new = version.path not in known and last.path in known
            if is_new and version.ts < before.end_ts and version.definition != last.definition:
                raise BadData(
                    f"the schema file came after commits up to {before.end_ts} had landed, and has other columns than "
                    "the version before it",
                    table=str(version.table),
                    file=version.path,
                    remedy="Rows that have landed may have had this schema. Land the folder as a source of another "
                    "name.",
                )
