"""The step that turns DDL in binlogs into versions: files, or what has been landed of a source.
Not here: reading them (`binlog/sources/`), what a version is (`schema/tracker/track.py`), the live server
(`snapshot_schemas.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.sources.files import FileSource
from strata_cdc.landing.change_source import LandedSource
from strata_cdc.landing.landed import LandedStream
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.store.own import own_database
from strata_cdc.tracking.feed_tracker import feed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from strata_cdc.schema.replay.baseline import Baseline
    from strata_cdc.schema.tracker.stream import TrackReport


def track_files(
    paths: Sequence[str],
    engine: sa.Engine,
    source: str,
    *,
    baseline: Baseline | None = None,
    lower_case_table_names: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    skip_corrupt: bool = False,
) -> TrackReport:
    """Tracks binlog files. What has been tracked before is passed over; kill it anywhere and run it again.

    Args:
        paths: Files of one source; put into the order of their numbers where they have one name.
        engine: The store; `sqlite://` tracks in memory.
        source: Name of the source.
        baseline: What there was before the first file; used only where tracking begins.
        lower_case_table_names: Of the server, 0 to 2; no binlog has it.
        progress: Called with a file's name, the bytes of it that are done and its size.
        skip_corrupt: Goes on behind damage, which is a gap of all tables where a DDL may be lost with it.

    Raises:
        CorruptEventError: Versions before the fault have been stored.
        AlreadyRunningError: Another tracker is at work on the source.
    """
    tracker = Tracker(
        SchemaStore(engine),
        source,
        baseline=baseline,
        exclude=own_database(engine, ()),
        lower_case_table_names=lower_case_table_names,
    )
    return feed(tracker, FileSource(paths, progress=progress, skip_corrupt=skip_corrupt))


def track_landed(lake: str, source: str, engine: sa.Engine, sensitive: Sequence[str] = ()) -> TrackReport:
    """Tracks what has been landed of a source since the last time; only segments with statements are opened.

    Where that is nothing but what the store itself wrote, on the source, nothing is noted: it would be written there,
    too, and be landed by the next run, for ever. It is passed over with the next change.

    Args:
        lake: Folder or URL of the lake.
        source: Name of the source.
        engine: The store.
        sensitive: Patterns of `database.table.column`; where there are any, no value of a statement is kept.

    Raises:
        CorruptEventError: Versions before the fault have been stored.
        AlreadyRunningError: Another tracker is at work on the source.
        StreamHoleError: A segment is missing.
    """
    stream = LandedStream.open(lake, source)
    own, store = own_database(engine, stream.servers()), SchemaStore(engine)
    tracker = Tracker(store, source, exclude=own, sensitive=sensitive)
    at = tracker.position.seq
    if own and at and not store.pending_snapshots(source) and stream.is_only_of(own, at + 1, stream.last_seq):
        return tracker.finish()
    return feed(tracker, LandedSource(stream, at))
