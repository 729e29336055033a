"""What a run would do, without writing anything: on a copy of the store, without a plan in the lake.
Not here: doing it (`run_source.py`)."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.protocol.replication import BinlogStream
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.plan.closable import closable_until
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import draft_plan
from strata_cdc.position.executed import parse_executed
from strata_cdc.selection.wanted import unmatched_patterns
from strata_cdc.store.copied import copied_store
from strata_cdc.store.database import find_store, open_store
from strata_cdc.tracking.notice_ddl import track_source

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.pipeline.run_source import SourceRequest


class Rehearsal(Struct, frozen=True):
    """What a run would do with what has landed, and what it would land first."""

    source: str
    snapshot: bool
    """Whether it would take a snapshot of the schemas first."""
    to_land: int | None
    """Transactions that the server has executed and that have not landed; None where they have no GTIDs. What is in
    them is not known before they have landed."""
    to_track: int
    """Landed transactions that have not been tracked."""
    run: str | None
    """The run's name; None if nothing of what has landed is to be published."""
    intervals: int
    slices: int
    rows: int
    tables: dict[str, int]
    """Rows by table."""
    refused: int
    """Rows that cannot be decoded."""
    reason: str | None
    """Why, of the first of them."""


def rehearse(wanted: SourceRequest, *, settings: Settings) -> Rehearsal:
    """Tracks and plans what has landed on a copy of the store, which is forgotten; asks the server what is to come.

    Raises:
        StrataError: What a run would raise before it decodes.
    """
    source = settings.source(wanted.source)
    stream = LandedStream.open(source.lake, source.name)
    to_land = _to_land(source, stream)
    if not stream.segments:
        return Rehearsal(source.name, True, to_land, 0, None, 0, 0, 0, {}, 0, None)  # noqa: FBT003  a field
    engine = _copy(source, stream)
    tracked = track_source(source, engine)
    request = RunRequest(
        start=wanted.since,
        end=wanted.until,
        gtid_set=parse_executed(wanted.gtid_set) if wanted.gtid_set else None,
        tables=wanted.tables,
        choice=wanted.choice,
        failed=wanted.failed,
    )
    plan, _ = draft_plan(source, engine, stream, request, now=closable_until(source, engine, stream))
    unmatched_patterns(source, engine, stream, wanted.tables)
    rows = Counter[str]()
    for table in plan.tables:
        rows[table.name] += table.rows
    return Rehearsal(
        source=source.name,
        snapshot=False,
        to_land=to_land,
        to_track=tracked.transactions,
        run=plan.run if plan.tables else None,
        intervals=len(plan.intervals),
        slices=len(plan.slices),
        rows=rows.total(),
        tables=dict(sorted(rows.items())),
        refused=sum(refused_rows.rows for refused_rows in plan.refused),
        reason=plan.refused[0].error.message if plan.refused else None,
    )


def _to_land(source: Source, stream: LandedStream) -> int | None:
    with closing(BinlogStream.open(source.address)) as binlog:
        server = binlog.state()
    if not server.numbers_all:
        return None
    landed = stream.executed() if stream.segments else server.purged
    return (server.executed - landed).count()


def _copy(source: Source, stream: LandedStream) -> sa.Engine:
    store = find_store(source.store_url)
    return open_store("sqlite://") if store is None else copied_store(store, source.name, stream.servers())
