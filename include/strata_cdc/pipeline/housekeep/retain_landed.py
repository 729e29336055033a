"""Deletes landed segments that the settings do not keep, oldest first, once all that they hold is published.
Not here: other parts of the lake."""

from __future__ import annotations

import json
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.lake.lost_tables import lost_tables
from strata_cdc.landing.landed import LandedSegment, LandedStream, landing_folder
from strata_cdc.landing.prepared import decisions
from strata_cdc.mirrors.dump.folder import begun_dumps
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.selection.wanted import wanted_tables
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.store.ledgers import ClosedInterval

DELETED_FOLDER = "deleted"
"""Below the landing folder: a file for each time that something was deleted, with what it was."""
_DAY_MICROS = 86_400 * 1_000_000
_GIGABYTE = 1 << 30
_PUBLISHED = (IntervalState.PUBLISHED, IntervalState.FAILED, IntervalState.BLOCKED, IntervalState.DISCARDED)
"""States in which an interval's table may have published rows."""
_REBUILD = "`strata lake rebuild` makes it anew"


class DeletedSegment(Struct, frozen=True):
    """A segment that was deleted."""

    segment: str
    bytes: int
    first_seq: int
    last_seq: int
    clock: int
    """Commit time of its last transaction, microseconds UTC."""
    executed_before: str
    executed: str


class RetainReport(Struct, frozen=True):
    """What was deleted, and why no more was."""

    source: str
    segments: tuple[DeletedSegment, ...]
    kept: int
    """Segments that are still here."""
    kept_bytes: int
    held_by: str | None
    """Why the oldest of them stays although the settings would have it deleted; None if they would not."""


def retain_landed(source: Source, engine: sa.Engine, *, now: int) -> RetainReport:
    """Deletes segments from the oldest on, as long as each is too old, or all are too large, and nothing needs it.

    The newest segment stays: a landing continues from it. Safe to repeat, and to be killed.

    Args:
        source: The source; `keep_days` and `keep_gb` of its settings define what is kept.
        engine: Its store.
        now: Microseconds UTC.
    """
    stream = LandedStream.open(source.lake, source.name)
    # One listing of the folder: reading each segment's index would read one file per segment.
    left = stream.bytes()
    need: _Need | None = None
    deleted: list[LandedSegment] = []
    held_by = None
    for segment in stream.segments[:-1] if has_limits(source) else ():
        if not _is_due(source, segment.summary.clock_after, left, now):
            break
        need = need or _Need(source, engine, stream, now)
        held_by = need.reason(segment)
        if held_by:
            break
        deleted.append(segment)
        left -= segment.summary.bytes
    if deleted and any(prepared.is_empty for prepared in deleted[-1].summary.prepared or ()):
        # Nothing else tells those who read from the next one on that their XA COMMIT lacks no rows.
        left += deleted.pop().summary.bytes
    segments = tuple(_describe(segment) for segment in deleted)
    _delete(source, deleted, segments)
    return RetainReport(source.name, segments, len(stream.segments) - len(deleted), left, held_by)


def has_limits(source: Source) -> bool:
    """Whether the settings have segments deleted at all."""
    return source.settings.keep_days is not None or source.settings.keep_gb is not None


def _is_due(source: Source, clock: int, left: int, now: int) -> bool:
    days, gigabytes = source.settings.keep_days, source.settings.keep_gb
    return (days is not None and clock < now - days * _DAY_MICROS) or (
        gigabytes is not None and left > gigabytes * _GIGABYTE
    )


def _describe(segment: LandedSegment) -> DeletedSegment:
    summary = segment.summary
    return DeletedSegment(
        segment=str(segment.name),
        bytes=summary.bytes,
        first_seq=summary.first_seq,
        last_seq=summary.last_seq,
        clock=summary.clock_after,
        executed_before=summary.executed_before,
        executed=summary.executed,
    )


def _delete(source: Source, segments: list[LandedSegment], described: tuple[DeletedSegment, ...]) -> None:
    if not segments:
        return
    folder = landing_folder(source.lake, source.name)
    name = f"{segments[0].name.ordinal:010d}-{segments[-1].name.ordinal:010d}.json"
    # The list first: it may name a segment that is still there, never the other way round.
    folder.folder(DELETED_FOLDER).write(
        name, json.dumps([to_plain(deleted) for deleted in described], indent=1).encode()
    )
    for segment in segments:
        # The segment first: an index without its segment is a leftover, which the next landing removes.
        folder.delete(str(segment.name))
        folder.delete(f"{segment.name}{SUFFIX}")


class _Need:
    """Whether a step that is still to come reads a segment."""

    def __init__(self, source: Source, engine: sa.Engine, stream: LandedStream, now: int) -> None:
        position = SchemaStore(engine).position(source.name)
        self._tracked = position.seq if position else 0
        # Those that own something of what is still in the lake.
        intervals = IntervalLedger(engine).after(source.name, stream.first_seq - 1)
        self._intervals = sorted(intervals, key=lambda interval: interval.last_seq)
        self._lasts = [interval.last_seq for interval in self._intervals]
        ledger, wanted = TableIntervalLedger(engine), wanted_tables(source, engine, stream)
        self._uncounted = set(ledger.uncounted(source.name))
        self._open = {
            entry.start: entry
            for entry in ledger.select(
                source.name, (IntervalState.PENDING, IntervalState.FAILED, IntervalState.BLOCKED)
            )
            if wanted(TableName(entry.database, entry.table)) and entry.published_rows < entry.rows
        }
        self._stream, self._source, self._engine = stream, source, engine
        # A dump without progress for that long was given up; if it is continued, it begins anew.
        given_up = now - source.settings.keep_runs_days * _DAY_MICROS
        self._dumps = [dump for dump, changed in begun_dumps(source.lake, source.name) if changed >= given_up]

    @cached_property
    def _lost(self) -> dict[int, str]:
        """By start of an interval, a table that was published there and has lost something since. Which of its rows are
        left nobody knows before it is made anew, which takes all of them from here."""
        lost = {lost_table.table for lost_table in lost_tables(self._source, self._engine)}
        published = TableIntervalLedger(self._engine).select(self._source.name, _PUBLISHED) if lost else ()
        return {entry.start: entry.name for entry in published if entry.name in lost and entry.published_rows}

    def reason(self, segment: LandedSegment) -> str | None:
        """Why a segment is needed; None if it is not."""
        summary = segment.summary
        if summary.last_seq > self._tracked:
            return f"versions are tracked up to transaction {self._tracked} only"
        owners = self._owners(summary.first_seq, summary.last_seq)
        if owners is None:
            return f"no interval owns all of the transactions {summary.first_seq} to {summary.last_seq}"
        executed = parse_executed(summary.executed)
        for dump in self._dumps:
            if not all(executed <= read for read in dump.oldest_reads()):
                return f"the dump of {dump.name}, which has begun, needs the changes since then"
        return self._needed_by_prepared(segment, owners) or self._needed_by(owners)

    def _needed_by_prepared(self, segment: LandedSegment, owners: list[ClosedInterval]) -> str | None:
        """As `reason`, for what is prepared in the segment; owners of later XA COMMITs join `owners`."""
        last_seq = segment.summary.last_seq
        decided = decisions(self._stream, segment)
        empty = self._stream.undecided_at(self._stream.last_seq).empty()
        for prepared in decided.undecided:
            if prepared.seq not in empty:
                return f"XA PREPARE {prepared.xid} in it is undecided"
        for seq in (seq for seq in decided.committed.values() if seq > last_seq):
            with_rows = self._owners(seq, seq)
            if with_rows is None:
                return f"no interval owns the transaction {seq}, an XA COMMIT of what it prepares"
            owners += with_rows
        return None

    def _needed_by(self, owners: list[ClosedInterval]) -> str | None:
        for interval in owners:
            where = f"in the interval that ends with transaction {interval.last_seq}"
            if interval.start in self._uncounted:
                return f"nobody has counted the rows {where}: the next plan does"
            if interval.start in self._open:
                entry = self._open[interval.start]
                return f"rows of {entry.name} {where} are {entry.state}, not published"
            if interval.start in self._lost:
                table = self._lost[interval.start]
                return f"{table} was deleted in the lake, in whole or in part, and has rows {where}: {_REBUILD}"
        return None

    def _owners(self, first: int, last: int) -> list[ClosedInterval] | None:
        """The intervals that own all transactions from the first to the last; None if one of these has no owner."""
        owners = []
        following = first
        for interval in self._intervals[bisect_left(self._lasts, first) :]:
            if interval.after_seq >= following or following > last:
                break
            owners.append(interval)
            following = max(following, interval.last_seq + 1)
        return owners if following > last else None
