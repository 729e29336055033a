"""The steps of a run by name, with the settings filled in: what the DAGs and the command line call.
Not here: the steps themselves (beside this file), Airflow (`dags/`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from strata.errors import AlreadyRunningError, SchemaGapError
from strata.events.index import Resume
from strata.events.landed import LandedStream
from strata.gtid.sets import GtidSet
from strata.jobs import notify_versions
from strata.jobs.follow_binlog import wait_for_follower
from strata.jobs.land_binlog import land_binlog
from strata.jobs.land_state import Doing, read_state
from strata.jobs.notice_ddl import track_source
from strata.jobs.plan_slices import MEGABYTE, Request, plan_run
from strata.jobs.publish_interval import publish_interval
from strata.jobs.retain_landed import retain_landed
from strata.jobs.run_folder import read_plan, run_folder
from strata.jobs.snapshot_schemas import snapshot_schemas
from strata.schema.engine import Moment
from strata.store.engine import open_store
from strata.store.ledgers import PublishedInterval, PublishedLedger
from strata.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata.config.settings import Settings, Source

Report = dict[str, Any]
BRIEF_CHARACTERS = 120
BRIEF_ITEMS = 3
"""What XCom holds of a text and a list; all of it is in the store and the run folder."""


def now_micros() -> int:
    """This machine's clock, microseconds UTC: read here, at the edge, and handed down."""
    return time.time_ns() // 1000


def brief(report: Report) -> Report:
    """A report for XCom: long texts (GTID sets, statements) are cut and long lists end with how many are left out."""
    return {name: _shorten(value) for name, value in report.items()}


def _shorten(value: Any) -> Any:
    if isinstance(value, str) and len(value) > BRIEF_CHARACTERS:
        return f"{value[:BRIEF_CHARACTERS]}..."
    if isinstance(value, dict):
        return brief(value)
    if isinstance(value, list | tuple):
        shown = [_shorten(item) for item in value[:BRIEF_ITEMS]]
        return [*shown, f"and {len(value) - BRIEF_ITEMS} more"] if len(value) > BRIEF_ITEMS else shown
    return value


def snapshot(source: str, *, settings: Settings) -> Report:
    """Reads every table's schema at one GTID set, or place of the binlog, and notes it for the tracker."""
    found = settings.source(source)
    stream = LandedStream.open(found.lake, source)
    # Where the landing goes on by file, transactions without a GTID may still be in front of the snapshot.
    moment = Moment.BY_FILE if stream.resume is Resume.FILE else Moment.BY_SERVER
    return brief(to_plain(snapshot_schemas(found.address, open_store(found.store_url), source, moment)))


def land(source: str, *, settings: Settings) -> Report:
    """Copies what the server has executed and we do not have.

    Before the very first landing it takes a snapshot: a server's oldest binlog rarely is its first, and what was there
    before it is known from nowhere else. The landing that follows reaches the moment of the snapshot.

    Where `strata land --follow` does the copying, it waits until that has come so far.

    Afterwards it deletes the landed segments that nothing needs any more and that the settings do not keep.
    """
    found = settings.source(source)
    if not LandedStream.open(found.lake, source).segments:
        snapshot_schemas(found.address, open_store(found.store_url), source)
    report = _land(found)
    deleted = retain_landed(found, open_store(found.store_url), now=now_micros())
    return brief({**report, "deleted": [one.segment for one in deleted.segments]})


def _land(source: Source) -> Report:
    segment_bytes = source.settings.segment_mb * MEGABYTE
    try:
        return to_plain(land_binlog(source.address, lake=source.lake, source=source.name, segment_bytes=segment_bytes))
    except AlreadyRunningError:
        state = read_state(source.lake, source.name)
        if state is None or state.doing is not Doing.FOLLOWING:
            raise
        goal = wait_for_follower(source.address, source.lake, source.name)
        return {"source": source.name, "followed": True, "gtid_executed": str(goal)}


def track(source: str, *, settings: Settings) -> Report:
    """Turns the DDL of what has landed into schema versions; only reports it if the settings say so."""
    found = settings.source(source)
    return brief(to_plain(track_source(found, open_store(found.store_url))))


def unsent_versions(source: str, sent: int, *, settings: Settings) -> list[Report]:
    """The schema versions behind the newest one that others have been told of."""
    found = settings.source(source)
    return notify_versions.unsent_versions(open_store(found.store_url), source, sent)


def plan(
    source: str,
    start: int | None,
    end: int | None,
    *,
    settings: Settings,
    tables: Sequence[str] | None = None,
    gtid_range: str | None = None,
) -> Report:
    """Cuts a span of commit time (microseconds UTC), or what owns some GTIDs, into slices.

    Without any of them it is all that no interval owns yet. Where only one end is given, the other is the stream's
    beginning, or now.
    """
    found = settings.source(source)
    now = now_micros()
    request = Request(start, end, GtidSet.parse(gtid_range) if gtid_range else None, tuple(tables or ()))
    stream = LandedStream.open(found.lake, source)
    return to_plain(plan_run(found, open_store(found.store_url), stream, request, now=now))


def publish(source: str, run: str, *, settings: Settings) -> Report:
    """Commits what passed its checks, and notes it in the ledger."""
    found = settings.source(source)
    report = publish_interval(found.lake, source, run)
    ledger = PublishedLedger(open_store(found.store_url))
    for table in report.tables:
        details = {
            "generation": table.generation,
            "schema_versions": list(table.schema_versions),
            "gtid_executed": table.gtid_executed,
            "run": run,
        }
        ledger.put(
            PublishedInterval(
                source, table.interval, table.table, table.delta_version, table.rows, now_micros(), details
            )
        )
    return report.to_json()


def refuse_gaps(source: str, run: str, *, settings: Settings) -> None:
    """The last step of a run: says which rows were left out, because their schema is not known or the binlog does not
    hold them.

    All other tables are published by then. The rows of a gap stay in the landed segments; once it is closed the same
    span can be run again.

    Raises:
        SchemaGapError: Some were; it names the first table's statement and position, and counts the others.
    """
    found = settings.source(source)
    refused = read_plan(run_folder(found.lake, source, run)).refused
    if not refused:
        return
    first = refused[0]
    rows = sum(one.rows for one in refused)
    tables = sorted({one.table for one in refused})
    raise SchemaGapError(
        f"{rows or 'some'} rows of {', '.join(tables[:5])}{' and others' if len(tables) > 5 else ''} were left out; "
        f"{first.error['message']}",
        source=source,
        table=first.table,
        gtid=str(first.error["gtid"]) if "gtid" in first.error else None,
        file=str(first.error["file"]) if "file" in first.error else None,
        offset=int(first.error["offset"]) if "offset" in first.error else None,
        remedy=f"{first.error.get('remedy', '')} Then run this span again: the other tables are published.".strip(),
    )
