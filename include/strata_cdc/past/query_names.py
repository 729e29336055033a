"""The tables and views that a query names, as they were: by the moments of their references.
Not here: the moments (`query.py`), what the query means (`dialects/queries/`), the rows (`table_at.py`)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from strata_cdc.dialects.queries.query import tables_of_view
from strata_cdc.errors import QueryError, Usage
from strata_cdc.past.moment import PastMoment
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from strata_cdc.dialects.queries.query import TableReference
    from strata_cdc.past.row_versions import VersionBounds
    from strata_cdc.past.table_at import PastTables
    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.schema.model.view import ViewDefinition

_MOST_MOMENTS: Final = 10
_NO_RANGES: Final[Mapping[TableReference, VersionBounds | None]] = MappingProxyType({})


class QueryNames:
    """A `SchemaOfThen` of one source.

    Args:
        tables: The source's tables.
        moment: The moment of a reference.
        bounds: The ranges of references to versions of rows.
    """

    def __init__(
        self,
        tables: PastTables,
        moment: Callable[[TableReference], PastMoment],
        bounds: Mapping[TableReference, VersionBounds | None] = _NO_RANGES,
    ) -> None:
        self._tables, self._moment, self._bounds = tables, moment, bounds

    def table_name(self, reference: TableReference) -> TableName:
        """The name at its moment of the table that a reference means: a range means the table that has the name at the
        end of the range.

        Raises:
            QueryError: As `name`.
            Usage: The table did not exist any more at the moment.
        """
        name, moment, bounds = self.name(reference), self._moment(reference), self._bounds.get(reference)
        if bounds is None or bounds.end >= moment.seq:
            return name
        return self._tables.later_name(name, bounds.end, moment)

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
        """See `SchemaOfThen`. Raises as `table_name` and `PastTables.definition`."""
        return self._tables.definition(self.table_name(reference), self._moment(reference))

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
    named: set[TableName] = set()
    todo, seen = list(references), set()
    while todo:
        reference = todo.pop()
        if reference in seen:
            continue
        seen.add(reference)
        view = names.view(reference)
        if view is None:
            named.add(names.name(reference))
        else:
            todo += tables_of_view(view, reference)
    return sorted(named)
