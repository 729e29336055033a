"""Which tables are compared.
Not here: comparing them (`reconcile_source.py`, `verify_changes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.schema.model.patterns import unmatched
from strata_cdc.selection.wanted import NAMES_OF_TABLES, folds_names, no_match, wanted_tables

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.quality.reconcile.past import SourcePast
    from strata_cdc.quality.reconcile.reading import ComparisonRequest
    from strata_cdc.schema.model.definition import TableName


def tables_of(source: Source, engine: sa.Engine, past: SourcePast, wanted: ComparisonRequest) -> list[TableName]:
    """Those that the settings and the request want, and that there are by the history.

    Raises:
        Usage: A pattern matches none, or nothing has landed.
    """
    stream = LandedStream.open(source.lake, source.name)
    if not stream.segments:
        raise Usage("nothing has landed yet", source=source.name, remedy=f"`strata run --source {source.name}`.")
    is_wanted = wanted_tables(source, engine, stream, wanted.tables)
    known = past.tables()
    for pattern in unmatched(wanted.tables, known, folded=folds_names(source.name, engine)):
        raise Usage(no_match(pattern, known), source=source.name, remedy=NAMES_OF_TABLES)
    return [name for name in known if is_wanted(name) and (wanted.names is None or name in wanted.names)]
