"""The change tables of a source that lack what the store calls published: looked for once behind each run, and by
status and doctor. Whoever writes to a table or reads it for a mirror looks at that one by himself.
Not here: one table's look (`tables/lost.py`), a lake that is another one as a whole (`known_lake.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.counted import counted
from strata_cdc.errors import LostTableError
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.full_names import split_full_name
from strata_cdc.store.ledgers import PublishedLedger
from strata_cdc.tables.lost import find_lost

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.errors import ErrorFacts


def newest_commits(source: str, engine: sa.Engine) -> dict[TableName, int]:
    """The newest commit of each change table that the store knows of.

    Raises:
        StoreUnavailableError: The store does not answer.
    """
    found = ((split_full_name(name), version) for name, version in PublishedLedger(engine).newest(source).items())
    return {TableName(*name): version for name, version in found if name is not None}


def lost_tables(source: Source, engine: sa.Engine) -> tuple[ErrorFacts, ...]:
    """What is wrong with each of them.

    Raises:
        LakeUnavailableError: The lake does not answer.
        StoreUnavailableError: The store does not answer.
    """
    return tuple(error.facts() for error in find_lost(source.lake, source.name, newest_commits(source.name, engine)))


def raise_if_lost(lost: Sequence[ErrorFacts]) -> None:
    """Lets nobody take what is left of some tables for all of it.

    Raises:
        LostTableError: There is such a table.
    """
    if lost:
        first = lost[0]
        others = f", and {counted(len(lost) - 1, 'other table')}" if len(lost) > 1 else ""
        raise LostTableError(f"{first.message}{others}", source=first.source, table=first.table, remedy=first.remedy)
