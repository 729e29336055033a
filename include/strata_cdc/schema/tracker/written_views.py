"""The tables that statements in statement format change through views: a binlog names only the view.
Not here: the names in a statement or a query (`ddl/dml.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.schema.ddl.dml import tables_of_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.history.versions import ViewEntry
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.replay.stored_catalog import Replay


def written_tables(
    names: Sequence[TableName], replay: Replay, context: DdlContext, through: frozenset[TableName] = frozenset()
) -> tuple[TableName, ...]:
    """The tables that are changed when these tables and views are.

    Args:
        names: What a statement names.
        replay: The schema before the statement.
        context: The statement's, or that of a view.
        through: The views that lead to these names: a view may have come to name itself.

    Returns:
        All tables of each view, whichever of them is changed; `()` if those of one view are not known.
    """
    tables: dict[TableName, None] = {}
    for name in names:
        view = replay.view(name)
        if view is None:
            tables[name] = None
            continue
        inside = () if view.name in through else _tables_of_view(view, replay, context, through | {view.name})
        if not inside:
            return ()
        tables |= dict.fromkeys(inside)
    return tuple(tables)


def _tables_of_view(
    view: ViewEntry, replay: Replay, context: DdlContext, through: frozenset[TableName]
) -> tuple[TableName, ...]:
    definition = view.definition
    if definition is None:
        return ()
    database = definition.database or view.name.database
    session = replace(context, default_database=database, sql_mode=definition.sql_mode)
    names = tables_of_query(definition.query, session)
    return written_tables(names, replay, session, through) if all(_is_there(name, replay) for name in names) else ()


def _is_there(name: TableName, replay: Replay) -> bool:
    """Whether it is a table or a view; the name of a common table expression is none."""
    if replay.view(name) is not None:
        return True
    table = replay.state(name)
    return table.definition is not None or table.gap is not None
