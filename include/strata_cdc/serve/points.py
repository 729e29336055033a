"""Points of a source's stream in the addresses of pages: what a text names, and the text of a change.
Not here: moments of rows (`past/moment.py`), what is valid at a point (`schema/history/historian.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from strata_cdc.clock import exact_text
from strata_cdc.errors import StrataError
from strata_cdc.schema.answers.positions import position_of
from strata_cdc.schema.history.stream_positions import AtSeq

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.config.settings import Source
    from strata_cdc.position.commit_ts import CommitStep
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.history.stream_positions import StreamPosition
    from strata_cdc.schema.history.versions import StoredEntry

_MOST_SEGMENTS: Final = 8
"""Read for a page: each is a request to an object store."""


def point_forms(source: Source) -> str:
    """The forms in which the points of a source's schema history are written."""
    return f"{'a commit timestamp of TiDB' if source.is_sink else 'a GTID set, FILE:OFFSET'}, or a time in UTC"


def moment_forms(source: Source) -> str:
    """The forms in which the moments of a source's rows are written."""
    return f"a time in UTC, or a {'commit timestamp of TiDB' if source.is_sink else 'GTID set'}"


def position_at(history: History, source: Source, point: str) -> StreamPosition:
    """The position that a point names: of a server as `position_of`; of a TiCDC sink a commit timestamp or a time.

    Args:
        history: The source's history.
        source: The source. Commit timestamps are looked up in its lake.
        point: The text; empty for the end of the stream.

    Raises:
        Usage: The text has none of the forms, or the source has no such position.
        UnknownSourceError: The source has never been tracked.
        BadData: A landed segment is damaged, or has no commit timestamps.
        LakeUnavailableError: The storage does not answer.
    """
    text = point.strip()
    if not text:
        return AtSeq(history.tracked.seq)
    if not source.is_sink:
        return position_of(history, text)
    # Imported here: it reads landed segments, and Airflow's web server loads it with the first such request.
    from strata_cdc.progress.find_position import schema_position  # noqa: PLC0415  see above

    return schema_position(history, source, text)


def commit_timestamps(source: Source, ordinals: Iterable[int]) -> dict[int, str]:
    """The commit timestamps of a sink's commits, by their ordinals: of the first few segments that have some. Empty of
    a server. What the lake does not have, or not now, is not in it: the page has the times.
    """
    if not source.is_sink:
        return {}
    # Imported here: as above.
    from strata_cdc.progress.find_position import commit_steps  # noqa: PLC0415  see above

    steps: dict[int, CommitStep] = {}
    with suppress(StrataError):
        steps = commit_steps(source, ordinals, most_segments=_MOST_SEGMENTS)
    return {seq: str(step.ts) for seq, step in steps.items()}


def point_after(entry: StoredEntry, source: Source) -> str:
    """The point after a change of a table; empty if none is known, which names the end of the stream.

    A sink has no GTIDs, and its times are milliseconds: of changes within the same one, it is the point after all. Of a
    server without GTIDs it is the offset after the one at which the statement starts.
    """
    if entry.gtid_executed:
        return entry.gtid_executed
    if source.is_sink:
        return exact_text(entry.committed_at + 1) if entry.committed_at else ""
    is_placed = entry.binlog_file is not None and entry.binlog_pos is not None
    return f"{entry.binlog_file}:{(entry.binlog_pos or 0) + 1}" if is_placed else ""
