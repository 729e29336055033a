"""The change tables of a source that lack what the store calls published: looked for once after each run, and by
status and doctor. Code that writes to a table, or reads it for a mirror, checks that table itself.
Not here: one table's look (`tables/lost.py`), a lake that is another one as a whole (`known_lake.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.counted import counted
from strata_cdc.errors import LostTableError
from strata_cdc.tables.lost import find_lost, newest_commits

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.errors import ErrorFacts


def lost_tables(source: Source, engine: sa.Engine) -> tuple[ErrorFacts, ...]:
    """What is wrong with each of them.

    Raises:
        LakeUnavailableError: The lake does not answer.
        StoreUnavailableError: The store does not answer.
    """
    return tuple(error.facts() for error in find_lost(source.lake, source.name, newest_commits(source.name, engine)))


def raise_if_lost(lost: Sequence[ErrorFacts]) -> None:
    """Fails if tables have lost something, so that what is left of them is not taken for all.

    Raises:
        LostTableError: There is such a table.
    """
    if lost:
        first = lost[0]
        others = f", and {counted(len(lost) - 1, 'other table')}" if len(lost) > 1 else ""
        raise LostTableError(f"{first.message}{others}", source=first.source, table=first.table, remedy=first.remedy)
