"""The numbers that a monitoring system keeps of a source: one flat struct, a name for each.
Not here: what they are made of (`progress/status.py`), how they are sent (`airflow/steps.py`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import BadData, StoreFormatError
from strata_cdc.mirrors.current import position_now
from strata_cdc.mirrors.layout import mirrored_tables
from strata_cdc.mirrors.table import Mirror
from strata_cdc.progress.status import SourceStatus, source_status
from strata_cdc.store.database import OnMissing, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.mirrors.position import MirrorPosition

_LOG = logging.getLogger("strata.metrics")


class SourceMetrics(Struct, frozen=True):
    """Numbers of one source at one moment. What is not known is None, and is not sent."""

    lag_seconds: float | None
    """Age of what readers have: from the end of the newest interval, or the start of the oldest with pending rows, to
    now; of an idle source from when its landing looked last."""
    landing_lag_seconds: float | None
    """By the newest landing: from the last landed commit to the server's clock; 0 when all had landed."""
    purge_distance_seconds: float | None
    """So long from now on the server keeps what has not landed yet, at least; below zero it may be gone. None: the
    server deletes nothing on its own. A PURGE BINARY LOGS by hand does not respect it."""
    progress_age_seconds: float | None
    """Since a landing looked, or a run stored what it had done; grows where nothing runs."""
    landed_transactions: int
    landed_bytes: int
    """Of the landed segments that are here."""
    landed_rows: int
    """Row changes that closed intervals own, of all tables."""
    decoded_rows: int
    """Published, or judged and withheld."""
    published_rows: int
    owed_rows: int
    quarantined_rows: int
    """Withheld: their checks failed, they could not be decoded, or a gap holds them."""
    gap_count: int
    """Tables whose schema is not known at the end of the stream."""
    mirror_count: int
    mirror_lag_seconds: float | None
    """Age of the mirror with the largest lag; None if there are none, or one cannot be read."""
    lost_count: int
    """Change tables that lack a commit which they once had."""
    crossed_rows: int = 0
    """Rows whose data are of another schema than the one valid where they are: of a TiCDC sink all that have landed, of
    a server those in quarantine."""


def read_metrics(source: str, *, settings: Settings, now: int) -> SourceMetrics:
    """The numbers of a source, read from its store and lake; the server is not queried.

    Raises:
        UnknownSourceError: The settings have no such source.
        StoreUnavailableError: The store does not answer.
        LakeUnavailableError: The lake does not.
    """
    configured = settings.source(source)
    return metrics_of(
        configured, source_status(configured, open_store(configured.store_url, OnMissing.EMPTY), now=now), now=now
    )


def metrics_of(source: Source, status: SourceStatus, *, now: int) -> SourceMetrics:
    """The numbers of a source whose status has been read."""
    return source_metrics(status, mirror_positions(source.lake, source.name), now=now)


def mirror_positions(lake: str, source: str) -> list[MirrorPosition | None]:
    """Up to where each mirror of a table that is still there equals it; None: it cannot be read, which is logged."""
    positions: list[MirrorPosition | None] = []
    for table in mirrored_tables(lake, source):
        try:
            mirror = Mirror.open(lake, source, table)
            if mirror is not None and not mirror.is_dropped:
                positions.append(position_now(lake, mirror))
        except (BadData, StoreFormatError) as error:
            # A caller wants to know of one damaged mirror, and to have the numbers of all others.
            _LOG.warning("%s", error.located(source=source, table=str(table)))
            positions.append(None)
    return positions


def source_metrics(status: SourceStatus, mirrors: Sequence[MirrorPosition | None], *, now: int) -> SourceMetrics:
    """The numbers of a source.

    Args:
        status: How far its steps are.
        mirrors: `mirror_positions`.
    """
    behind = status.behind_seconds if status.owned_until else None
    pending = _age(status.owed_since, now)
    lag = behind if pending is None else max(behind or 0.0, pending)
    return SourceMetrics(
        lag_seconds=lag,
        landing_lag_seconds=status.landing.lag_seconds if status.landing else None,
        purge_distance_seconds=_purge_distance(status, now),
        progress_age_seconds=_age(status.progress_at, now),
        landed_transactions=status.landed_seq,
        landed_bytes=status.landed_bytes,
        landed_rows=status.landed_rows,
        decoded_rows=status.decoded_rows,
        published_rows=sum(table.rows for table in status.tables),
        owed_rows=sum(table.owed_rows for table in status.tables),
        quarantined_rows=sum(table.failed_rows + table.held_rows for table in status.tables),
        gap_count=sum(table.gap is not None for table in status.tables),
        mirror_count=len(mirrors),
        mirror_lag_seconds=_mirror_lags(mirrors, status, behind or 0.0, now),
        lost_count=len(status.lost),
        crossed_rows=status.crossed_rows,
    )


def _age(moment: int, now: int) -> float | None:
    return max(0.0, (now - moment) / 1e6) if moment else None


def _purge_distance(status: SourceStatus, now: int) -> float | None:
    """What is not here was committed after what is here, or after when a landing last had everything; the server
    deletes a file so long after its last event (sql/binlog.cc, purge_logs_before_date)."""
    landing = status.landing
    if landing is None or landing.expire_seconds is None:
        return None
    had_all = landing.at if landing.lag_seconds == 0 else 0
    since = max(status.landed_until, had_all)
    return (since - now) / 1e6 + landing.expire_seconds if since else None


def _mirror_lags(
    mirrors: Sequence[MirrorPosition | None], status: SourceStatus, behind: float, now: int
) -> float | None:
    known = [mirror for mirror in mirrors if mirror is not None]
    if len(known) < len(mirrors):
        return None
    return max((_mirror_lag(position, status, behind, now) for position in known), default=None)


def _mirror_lag(position: MirrorPosition, status: SourceStatus, behind: float, now: int) -> float:
    # A mirror that has all that intervals own is as old as these, however long ago its last transaction was.
    if position.seq >= status.owned_seq:
        return behind
    return max(behind, _age(position.committed_at, now) or 0.0)
