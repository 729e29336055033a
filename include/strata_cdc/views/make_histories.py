"""Views of the histories of a source's mirrors.
Not here: what a history is made of (`mirrors/histories/`), its SQL (`dialects/history.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.dialects.relations import view_name
from strata_cdc.errors import Usage
from strata_cdc.mirrors.histories.history import HISTORY, history_of
from strata_cdc.mirrors.layout import mirrored_tables
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.tables.lost import newest_commits
from strata_cdc.views.make_views import MadeView, ViewKind, with_names_of_their_own

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from strata_cdc.dialects.engines import Dialect
    from strata_cdc.dialects.relations import Through
    from strata_cdc.mirrors.histories.history import MirrorHistory
    from strata_cdc.schema.model.definition import TableName


def make_histories(
    lake: str,
    source: str,
    engine: sa.Engine,
    dialect: Dialect,
    through: Through,
    wanted: Callable[[TableName], bool] = lambda _: True,
) -> list[MadeView]:
    """A view for each mirror of a table that is there, by name.

    Args:
        dialect: For which engine; DuckDB or Spark.
        through: How it reads change tables.
        wanted: Which tables.

    Raises:
        LostTableError: Of a change table something was deleted, or its log is not whole.
        LakeUnavailableError: The storage does not answer.
        StoreUnavailableError: The database does not answer.
    """
    table_changes, removals = table_changes_of(engine, source), removals_of(engine, source)
    commits = newest_commits(source, engine)
    made: list[MadeView] = []
    for name in filter(wanted, mirrored_tables(lake, source)):
        mirror = Mirror.open(lake, source, name)
        if mirror is None or mirror.is_dropped:
            continue
        try:
            history = history_of(lake, mirror, table_changes, removals, commits)
        except Usage as error:
            made.append(MadeView(name, ViewKind.HISTORY, (), (error.facts().message,)))
            continue
        statements, named = history.sql(dialect, through), view_name(name, HISTORY, dialect, through).sql()
        made.append(MadeView(name, ViewKind.HISTORY, statements, _notes(history, through), names=(named,)))
    return with_names_of_their_own(made, dialect)


def _notes(history: MirrorHistory, through: Through) -> tuple[str, ...]:
    again = "DDL and TRUNCATE" if through == "delta" else "DDL, TRUNCATE and whatever is published"
    begins = history.begins_at
    return (
        f"made with the versions of now: make it anew after {again}",
        f"begins after transaction {begins.seq} ({begins.gtid_executed or 'no GTIDs'}): what was there has NULL in "
        "_valid_from",
    )
