"""The moments and ranges that a query names for its tables.
Not here: finding a moment in the stream (`moment.py`), reading the clauses (`dialects/queries/statement_text.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.dialects.queries.system_time import WrittenMoment
from strata_cdc.errors import Usage
from strata_cdc.past.moment import PastMoment, find_moment, point_of
from strata_cdc.past.row_versions import VersionBounds
from strata_cdc.position.executed import parse_executed

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.dialects.queries.query import TableReference
    from strata_cdc.past.moment import MomentPoint


class QueryMoments:
    """The moments that queries of one source name.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        engine: The source's store.
    """

    def __init__(self, lake: str, source: str, engine: sa.Engine) -> None:
        self._lake, self._source, self._engine = lake, source, engine

    def find(self, point: MomentPoint) -> PastMoment:
        """The moment of a point. Raises as `find_moment`."""
        return find_moment(self._lake, self._source, self._engine, point)

    def of(self, reference: TableReference, moment: PastMoment | None) -> PastMoment:
        """The moment of a table: its own, or that of the query, which is None if all tables have their own.

        Raises:
            Usage: Its text is no moment, or the stream never was there.
            PastUnknownError: The landed stream does not show which transactions had been committed by then.
        """
        if reference.at is None and moment is not None:
            return moment
        return self.find(_point(WrittenMoment(reference.at or "", reference.at_gtid)))

    def bounds(self, reference: TableReference, moment: PastMoment) -> VersionBounds | None:
        """The range of a table whose versions are meant, in a query at a moment; None for a table at one moment.

        Raises:
            Usage: It ends before it begins, or after the moment; or as `of`.
            PastUnknownError: As `of`.
        """
        versions = reference.versions
        if versions is None:
            return None
        if versions.begin is None or versions.end is None:
            return VersionBounds(None, moment.seq)
        first, last = _point(versions.begin), _point(versions.end)
        begin, end = self.find(first).seq, self.find(last).seq
        if first > last if isinstance(first, int) and isinstance(last, int) else begin > end:
            raise Usage("FOR SYSTEM_TIME ends before it begins", remedy="Exchange its moments.")
        if end > moment.seq:
            raise Usage(
                f"FOR SYSTEM_TIME ends at transaction {end}, after the moment of the query, transaction {moment.seq}",
                remedy=f"Name the moment, too: `--at '{versions.end.text}'`.",
            )
        if not versions.includes_end:
            end = self.find(last - 1).seq if isinstance(last, int) else end - 1
        return VersionBounds(begin, end)


def _point(written: WrittenMoment) -> MomentPoint:
    return parse_executed(written.text) if written.is_gtid else point_of(written.text)
