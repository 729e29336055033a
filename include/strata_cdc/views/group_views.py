"""Views over the change tables of a group's sources: one for each table, over those of the sources.
Not here: the views of one source (`make_views.py`), SQL (`dialects/group_views.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.dialects.group_views import MemberView, changes_of_all, column_mistake, rows_of_all
from strata_cdc.dialects.relations import schema_of, view_name
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.views.make_views import CHANGES, MadeView, ViewKind, make_views, member_name, with_names_of_their_own

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.config.settings import Group
    from strata_cdc.dialects.engines import Dialect
    from strata_cdc.dialects.relations import Through
    from strata_cdc.schema.model.definition import TableName


def make_group_views(
    group: Group, dialect: Dialect, through: Through, wanted: Callable[[TableName], bool] = lambda _: True
) -> list[MadeView]:
    """The views of all tables that any source has: those of the sources, called TABLE__SOURCE, and over them those of
    the group.

    Args:
        dialect: For which engine.
        through: How it reads change tables.
        wanted: Which tables.

    Raises:
        StrataError: The lake or a store does not answer.
    """
    by_table: dict[tuple[TableName, ViewKind], list[tuple[str, MadeView]]] = {}
    for source in group.sources:
        engine = open_store(source.store_url, OnMissing.EMPTY)
        try:
            made = make_views(source.lake, source.name, engine, dialect, through, wanted, member=source.name)
        finally:
            engine.dispose()
        for view in made:
            by_table.setdefault((view.table, view.kind), []).append((source.name, view))
    united = [_united(members, dialect, through) for _, members in sorted(by_table.items())]
    return with_names_of_their_own(united, dialect)


def _united(members: list[tuple[str, MadeView]], dialect: Dialect, through: Through) -> MadeView:
    _, first = members[0]
    refusals = [f"{source}: {made.notes[0]}" for source, made in members if not made.statements]
    if refusals:
        return MadeView(first.table, first.kind, (), tuple(refusals))
    ending = CHANGES if first.kind is ViewKind.CHANGES else ""
    views = [
        MemberView(source, view_name(member_name(made.table, source), ending, dialect, through), made.columns)
        for source, made in members
    ]
    mistake = column_mistake(views)
    if mistake is not None:
        refusal = f"the sources' tables differ: {mistake}; `strata doctor` names the DDL that made each"
        return MadeView(first.table, first.kind, (), (refusal,))
    view = view_name(first.table, ending, dialect, through)
    write = changes_of_all if first.kind is ViewKind.CHANGES else rows_of_all
    statements = [statement for _, made in members for statement in made.statements]
    notes = [f"{source}: {note}" for source, made in members for note in made.notes[1:]]
    return MadeView(
        first.table,
        first.kind,
        (*schema_of(view, dialect), *statements, write(view, views, dialect)),
        (*first.notes[:1], *notes),
        names=(view.sql(), *(name for _, made in members for name in made.names)),
    )
