"""How far each step of a source has come, from what lies in the lake and the store; the server is not asked.
Not here: what a server's settings lack (`check_source.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata.events.landed import LandedStream
from strata.jobs.land_state import LandState, read_state
from strata.schema.history import AtSeq, Gap, History
from strata.schema.store import SchemaStore
from strata.schema.versions import SYSTEM_DATABASES
from strata.store.ledgers import IntervalLedger, PublishedLedger, VerdictLedger
from strata.values import to_plain

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata.config.settings import Source


class TableStatus(Struct, frozen=True):
    """What readers have of one table."""

    table: str
    rows: int
    intervals: int
    published_until: int
    """Start of the newest interval with rows, microseconds UTC."""
    verdict: str | None
    """Outcome of the newest checks."""
    gap: str | None
    """Why its schema is not known at the end of the stream."""


class SourceStatus(Struct, frozen=True):
    """One source: each step's position in the same stream."""

    source: str
    landed_seq: int
    landed_until: int
    """Commit time of the last landed transaction, microseconds UTC; 0 if there is none."""
    landed_gtid_set: str
    landed_position: str | None
    """FILE:OFFSET in the server's files behind the last landed segment; None if nothing has landed."""
    segments: int
    landing: LandState | None
    """What the newest landing said of itself last; a landing that was killed says nothing more."""
    tracked_seq: int
    owned_seq: int
    """Last transaction that a closed interval owns."""
    owned_until: int
    """End of the newest interval, microseconds UTC; 0 if there is none."""
    behind_seconds: float
    """From the end of the newest interval to now."""
    tables: tuple[TableStatus, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return to_plain(self)


def source_status(source: Source, engine: sa.Engine, *, now: int) -> SourceStatus:
    """Reads the status of a source.

    Args:
        source: The source.
        engine: Its store.
        now: Microseconds UTC.

    Raises:
        StoreUnavailableError: The store does not answer.
        LakeUnavailableError: The lake does not.
    """
    stream = LandedStream.open(source.lake, source.name)
    position = SchemaStore(engine).position(source.name)
    newest = IntervalLedger(engine).last(source.name)
    return SourceStatus(
        source=source.name,
        landed_seq=stream.last_seq,
        landed_until=stream.clock,
        landed_gtid_set=str(stream.executed()),
        landed_position=_position(stream),
        segments=len(stream.segments),
        landing=read_state(source.lake, source.name),
        tracked_seq=position.seq if position else 0,
        owned_seq=newest.last_seq if newest else 0,
        owned_until=newest.end if newest else 0,
        behind_seconds=max(0.0, (now - newest.end) / 1e6) if newest else 0.0,
        tables=_tables(source, engine),
    )


def _position(stream: LandedStream) -> str | None:
    if not stream.segments:
        return None
    summary = stream.segments[-1].summary
    return f"{summary.binlog_file}:{summary.server_end}"


def _tables(source: Source, engine: sa.Engine) -> tuple[TableStatus, ...]:
    gaps = _gaps(source, engine)
    verdicts = VerdictLedger(engine)
    published: dict[str, list[Any]] = {}
    for entry in PublishedLedger(engine).list(source.name):
        published.setdefault(entry.table, []).append(entry)
    found = []
    for table in sorted({*published, *gaps}):
        entries = published.get(table, [])
        newest = max((entry.interval_start for entry in entries), default=0)
        verdict = verdicts.get(source.name, newest, table)
        found.append(
            TableStatus(
                table=table,
                rows=sum(entry.rows for entry in entries),
                intervals=len({entry.interval_start for entry in entries}),
                published_until=newest,
                verdict=verdict.outcome if verdict else None,
                gap=gaps.get(table),
            )
        )
    return tuple(found)


def _gaps(source: Source, engine: sa.Engine) -> dict[str, str]:
    store = SchemaStore(engine)
    position = store.position(source.name)
    if position is None:
        return {}
    known = History(store, source.name).tables(AtSeq(position.seq))
    return {
        str(table): found.reason
        for table, found in known
        if isinstance(found, Gap) and table.database not in SYSTEM_DATABASES
    }
