"""The tables and views that a query names, as they were: by the moments of their references.
Not here: the moments (`query_moments.py`), what the query means (`dialects/queries/`), the rows (`table_at.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.dialects.queries.query import tables_of_view
from strata_cdc.errors import QueryError, Usage
from strata_cdc.past.moment import PastMoment
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strata_cdc.dialects.queries.query import TableReference
    from strata_cdc.past.table_at import PastTables
    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.schema.model.view import ViewDefinition

_MOST_MOMENTS = 10


class QueryNames:
    """A `SchemaOfThen` of one source.

    Args:
        tables: The source's tables.
        moment: The moment of a reference.
    """

    def __init__(self, tables: PastTables, moment: Callable[[TableReference], PastMoment]) -> None:
        self._tables, self._moment = tables, moment

    def name(self, reference: TableReference) -> TableName:
        """The name of a table or view as the server compares it.

        Raises:
            QueryError: It is no table's name, or has no database.
        """
        if not reference.table:
            raise QueryError("FROM names something that is no table", remedy="Functions that give rows are not read.")
        if reference.database is None:
            raise QueryError(f"{reference.table} has no database", remedy=f"Write shop.{reference.table}, for example.")
        name = TableName(reference.database, reference.table)
        return name.lower() if self._tables.folds_names else name

    def table(self, reference: TableReference) -> TableDefinition:
        """See `SchemaOfThen`. Raises as `PastTables.definition`."""
        return self._tables.definition(self.name(reference), self._moment(reference))

    def view(self, reference: TableReference) -> ViewDefinition | None:
        """See `SchemaOfThen`. Raises as `PastTables.view`."""
        return self._tables.view(self.name(reference), self._moment(reference))

    def when_made(self, view: ViewDefinition) -> QueryNames:
        """See `SchemaOfThen`."""
        return QueryNames(self._tables, lambda _: PastMoment(view.made_at))


def newest_moment(tables: PastTables, references: Iterable[TableReference]) -> PastMoment:
    """The last moment that the mirrors of all tables of a query have reached, those of its views included.

    Which tables a view has depends on the moment, so they are looked up until they are the same.

    Raises:
        Usage: There is no such table, or the views never are the same.
        PastUnknownError: One of them has no mirror, or its mirror has other rows than the table.
    """
    references = list(references)
    moment = tables.last
    for _ in range(_MOST_MOMENTS):
        names = _tables_at(tables, references, moment)
        newest = tables.newest(names) if names else moment
        if newest == moment or _tables_at(tables, references, newest) == names:
            return newest
        moment = newest
    raise Usage(
        "the views of the query change more often than their mirrors are brought up to date",
        remedy="Name the moment: `--at`.",
    )


def _tables_at(tables: PastTables, references: Iterable[TableReference], moment: PastMoment) -> list[TableName]:
    """The tables that a query reads, through all views, by name."""
    names = QueryNames(tables, lambda _: moment)
    found: set[TableName] = set()
    todo, seen = list(references), set()
    while todo:
        reference = todo.pop()
        if reference in seen:
            continue
        seen.add(reference)
        view = names.view(reference)
        if view is None:
            found.add(names.name(reference))
        else:
            todo += tables_of_view(view, reference)
    return sorted(found)
