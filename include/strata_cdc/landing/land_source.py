"""Landing a source as its settings say.
Not here: landing (`land_binlog.py`), continuous landing (`follow_binlog.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.protocol.connection import connect, fetch_rows
from strata_cdc.errors import AlreadyRunningError, SourceSettingsError
from strata_cdc.landing.first_landing import allowed_begins
from strata_cdc.landing.follow_binlog import wait_for_follower
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.land_state import Doing, read_state
from strata_cdc.landing.landing_terms import LandingTerms

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.cut_segments import LandReport
    from strata_cdc.landing.land_state import LandProgress


def land_source(source: Source, progress: Callable[[LandProgress], None] | None = None) -> LandReport:
    """`land_binlog` of a source, with its errors."""
    return land_binlog(
        source.address,
        lake=source.lake,
        source=source.name,
        segment_bytes=source.segment_bytes,
        begins=allowed_begins(source),
        terms=landing_terms(source),
        progress=progress,
    )


def landing_terms(source: Source) -> LandingTerms:
    """What the settings of a source say of reading its server."""
    rate = source.settings.land_mb_per_second
    return LandingTerms(source.settings.server_id, rate and rate * 1_000_000)


def land_or_wait(
    source: Source, progress: Callable[[LandProgress], None] | None = None
) -> tuple[LandReport | None, str]:
    """The same; if `strata land --follow` lands the source, it waits until that process has landed everything so far.

    Returns:
        The report, None if it has waited; and the GTID set that has landed by now.

    Raises:
        AlreadyRunningError: Another landing runs that is no `--follow`.
        StrataError: As `land_binlog`.
    """
    try:
        landing = land_source(source, progress)
    except AlreadyRunningError:
        state = read_state(source.lake, source.name)
        if state is None or state.doing is not Doing.FOLLOWING:
            raise
        return None, str(wait_for_follower(source.address, source.lake, source.name))
    return landing, landing.gtid_executed


def refuse_statement_format(source: Source) -> None:
    """Refuses a server that always logs statements. Single logged statements are allowed: they are reported by table.

    Raises:
        SourceSettingsError: It does.
    """
    with connect(source.address) as connection:
        if fetch_rows(connection, "SELECT @@GLOBAL.binlog_format") == [("STATEMENT",)]:
            raise SourceSettingsError(
                "binlog_format is STATEMENT: the binlog holds no rows",
                source=source.name,
                remedy="Run SET PERSIST binlog_format = ROW on the server, and take the rows that it has from a dump.",
            )
