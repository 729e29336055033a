"""A view over the views of several sources' tables; `_source` names the source of each row.
Not here: the views of one source (`views.py`), which views there are (`views/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.trees import create_view, named, select, typed, union_all
from strata_cdc.dialects.views import BEFORE, SHARED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.dialects.engines import Dialect
    from strata_cdc.dialects.view_source import ViewColumn

SOURCE: Final = "_source"
_LAST_COLUMNS: Final = (*SHARED, "_schema_version", "_missing", "_invalid")


class MemberView(Struct, frozen=True):
    """The view of one source's table."""

    source: str
    view: exp.Table
    columns: tuple[ViewColumn, ...]


def column_mistake(members: Sequence[MemberView]) -> str | None:
    """Returns why tables have no common view: a column has two types. None if they have a common view."""
    known: dict[str, tuple[ViewColumn, str]] = {}
    for member in members:
        for column in member.columns:
            first, where = known.setdefault(column.name.lower(), (column, member.source))
            if first.kind != column.kind:
                return f"{first.name} is {first.kind} in {where} and {column.kind} in {member.source}"
    return None


def all_columns(members: Sequence[MemberView]) -> list[ViewColumn]:
    """Returns the columns that at least one of them has, in the order in which they first appear."""
    columns: dict[str, ViewColumn] = {}
    for member in members:
        for column in member.columns:
            columns.setdefault(column.name.lower(), column)
    return list(columns.values())


def changes_of_all(view: exp.Table, members: Sequence[MemberView], dialect: Dialect) -> str:
    """Returns the view of every change of all sources; a column that a source does not have is NULL in its rows."""
    columns = all_columns(members)
    selects = []
    for member in members:
        mine = {column.name.lower(): column for column in member.columns}
        selected = [_value(column, mine, dialect) for column in columns]
        fields = [
            exp.PropertyEQ(this=_name(column.published), expression=_before(column, mine, dialect))
            for column in columns
        ]
        has_image = exp.Not(this=exp.Is(this=exp.Column(this=_name(BEFORE)), expression=exp.null()))
        image = exp.Case(ifs=[exp.If(this=has_image, true=exp.Struct(expressions=fields))])
        selected.append(named(image, BEFORE))
        selected += [exp.Column(this=_name(name)) for name in _LAST_COLUMNS]
        selects.append(select(*selected).from_(member.view.copy(), copy=False))
    return create_view(view, union_all(selects), dialect)


def rows_of_all(view: exp.Table, members: Sequence[MemberView], dialect: Dialect) -> str:
    """Returns the view of the present rows of all sources, with `_source`. A column of the table that has that name is
    called as in change tables."""
    columns = all_columns(members)
    selects = []
    for member in members:
        mine = {column.name.lower(): column for column in member.columns}
        source = named(exp.Literal.string(member.source), SOURCE)
        values = [_value(column, mine, dialect, published=False) for column in columns]
        selects.append(select(source, *values).from_(member.view.copy(), copy=False))
    return create_view(view, union_all(selects), dialect)


def _value(column: ViewColumn, mine: dict[str, ViewColumn], dialect: Dialect, *, published: bool = True) -> exp.Expr:
    name = column.published if published or column.name.lower() == SOURCE else column.name
    own_column = mine.get(column.name.lower())
    if own_column is None:
        return named(typed(exp.null(), column.kind, dialect), name)
    own = own_column.published if published else own_column.name
    return named(exp.Column(this=_name(own)), name)


def _before(column: ViewColumn, mine: dict[str, ViewColumn], dialect: Dialect) -> exp.Expr:
    own_column = mine.get(column.name.lower())
    if own_column is None:
        return typed(exp.null(), column.kind, dialect)
    return exp.Dot(this=exp.Column(this=_name(BEFORE)), expression=_name(own_column.published))


def _name(text: str) -> exp.Identifier:
    return exp.to_identifier(text, quoted=True)
