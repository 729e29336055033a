"""The step that turns DDL into versions, from binlog files or from the landed stream of a source.
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
    """Tracks binlog files. What has been tracked before is skipped; it may be killed at any point, and run again.

    Args:
        paths: Files of one source; sorted by their numbers if they differ only in these.
        engine: The store; `sqlite://` tracks in memory.
        source: Name of the source.
        baseline: The schema before the first file; used only if tracking begins here.
        lower_case_table_names: The server's setting, 0 to 2; no binlog has it.
        progress: Called with a file's name, how many of its bytes are done, and its size.
        skip_corrupt: Continues after damage, which is a gap of all tables if a DDL may be lost with it.

    Raises:
        CorruptEventError: Versions before the fault have been stored.
        AlreadyRunningError: Another tracker works on the source.
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

    If these are only changes of the store's own tables on this source, the new position is not stored: storing it would
    be another change on the source, which the next run would land, for ever. They are skipped with the next change.

    Args:
        lake: Folder or URL of the lake.
        source: Name of the source.
        engine: The store.
        sensitive: Patterns of `database.table.column`; if there are any, no value of a statement is kept.

    Raises:
        CorruptEventError: Versions before the fault have been stored.
        AlreadyRunningError: Another tracker works on the source.
        StreamHoleError: A segment is missing.
    """
    stream = LandedStream.open(lake, source)
    own, store = own_database(engine, stream.servers()), SchemaStore(engine)
    tracker = Tracker(store, source, exclude=own, sensitive=sensitive)
    at = tracker.position.seq
    if own and at and not store.pending_snapshots(source) and stream.is_only_of(own, at + 1, stream.last_seq):
        return tracker.finish()
    return feed(tracker, LandedSource(stream, at))
