"""Runs a query over tables as they were: finds what its names mean, opens each table at its moment, and lets an engine
answer.
Not here: what the query means (`dialects/queries/`), the tables (`table_at.py`), engines (`duckdb_engine.py`,
`spark_jobs/past_queries.py`), printing (`cli/sql.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.dialects.queries.query import PastQuery, tables_of_view
from strata_cdc.dialects.queries.system_time import WrittenMoment
from strata_cdc.errors import QueryError, Usage
from strata_cdc.flavour import Vendor
from strata_cdc.past.duckdb_engine import run_in_duckdb
from strata_cdc.past.moment import PastMoment, find_moment, point_of
from strata_cdc.past.needed_rows import NeededRows
from strata_cdc.past.row_versions import VersionBounds, row_versions
from strata_cdc.past.table_at import PastTables
from strata_cdc.past.table_rows import LoadedRows, MirrorRows
from strata_cdc.position.commit_ts import CommitStep
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.history.shell_words import word
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import OnMissing, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.dialects.queries.query import AnswerColumn, TableReference, TranslatedQuery
    from strata_cdc.dialects.queries.values import Kind
    from strata_cdc.past.moment import MomentPoint
    from strata_cdc.past.table_rows import QueryRows
    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.schema.model.view import ViewDefinition


# The tables and views that a query names, as they were: by the moments of their references.
_MOST_MOMENTS: Final = 10
_NO_RANGES: Final[Mapping[TableReference, VersionBounds | None]] = MappingProxyType({})


class QueryNames:
    """A `SchemaOfThen` of one source.

    Args:
        tables: The source's tables.
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
        if reference.database is None and reference.table.upper() == "DUAL":
            raise QueryError("DUAL is no table", remedy="Leave FROM DUAL out.")
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


_LITERALS: Final = {Vendor.MYSQL: "utf8mb4_0900_ai_ci", Vendor.MARIADB: "utf8mb4_uca1400_ai_ci"}
"""The collation of literals in a session of utf8mb4."""


QueryEngine = Callable[["TranslatedQuery", "Mapping[str, QueryRows]"], pa.Table]
"""Runs a query over its tables, by name: the rows have columns c0, c1 and so on, in types that Arrow casts to those of
the answer. It raises a QueryError if it has no answer."""


class Answer(Struct, frozen=True):
    """The rows of a query."""

    rows: pa.Table
    kinds: tuple[Kind, ...]
    """What MySQL knows of each column."""
    moment: PastMoment | None
    """The moment of the tables that name none of their own; None if all do, or if there are no tables."""


def answer(source: Source, statement: str, at: str | None = None, engine: QueryEngine = run_in_duckdb) -> Answer:
    """Answers a query.

    Args:
        statement: A SELECT of MySQL's SQL.
        at: The moment of tables that name none: a time or a GTID set; None: the last one that all of their mirrors have
            reached.
        engine: What runs the query.

    Raises:
        QueryError: MySQL's answer is not known here; the message has the position.
        PastUnknownError: A table's rows are not known at the moment.
        StrataError: The lake or the store does not answer.
    """
    query = PastQuery(statement)
    store = open_store(source.store_url, OnMissing.REFUSE)
    with PastTables(source.lake, source.name, store) as tables:
        written = QueryMoments(source.lake, source.name, store)
        references = query.references()
        own = [reference for reference in references if reference.at is None]
        moment = None
        if at is not None:
            moment = written.find(point_of(at))
        elif own:
            moment = newest_moment(tables, own)
        moment_of = cache(partial(written.moment_of, moment=moment))
        # A range is refused before the tables are looked for.
        bounds = {reference: written.bounds(reference, moment_of(reference)) for reference in references}
        names = QueryNames(tables, moment_of, bounds)
        translated = query.translate(
            names, connection_collation=_LITERALS[tables.vendor], folds_names=tables.folds_names
        )
        rows = {
            name: _rows(
                tables,
                names.table_name(reference),
                moment_of(reference),
                bounds.get(reference),
                NeededRows(numbers, translated.ranges.get(reference, ())),
            )
            for reference, (name, numbers) in translated.reads.items()
        }
        kinds = tuple(column.kind for column in translated.columns)
        return Answer(_shown(engine(translated, rows), translated.columns), kinds, moment)


def _rows(
    tables: PastTables, name: TableName, moment: PastMoment, bounds: VersionBounds | None, needed: NeededRows
) -> QueryRows:
    if bounds is None:
        return MirrorRows(tables.rows(name, moment), needed)
    return LoadedRows(row_versions(tables.history(name, moment), bounds, needed))


def _shown(answer: pa.Table, columns: Sequence[AnswerColumn]) -> pa.Table:
    """The result under MySQL's names, in the types of the columns."""
    arrays = [_as_shown(answer.column(at), column.kind.arrow) for at, column in enumerate(columns)]
    fields = [pa.field(column.name, array.type) for column, array in zip(columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _as_shown(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(column))])
    return column if column.type == kind else pc.cast(column, kind)


class QueryMoments:
    """The moments that queries of one source name."""

    def __init__(self, lake: str, source: str, engine: sa.Engine) -> None:
        self._lake, self._source, self._engine = lake, source, engine

    def find(self, point: MomentPoint) -> PastMoment:
        """The moment of a point. Raises as `find_moment`."""
        return find_moment(self._lake, self._source, self._engine, point)

    def moment_of(self, reference: TableReference, moment: PastMoment | None) -> PastMoment:
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
            Usage: It ends before it begins, or after the moment; or as `moment_of`.
            PastUnknownError: As `moment_of`.
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
                remedy=f"Name the moment, too: `--at {word(versions.end.text)}`.",
            )
        if not versions.includes_end:
            end = self._seq_before(last, end)
        return VersionBounds(begin, end)

    def _seq_before(self, last: MomentPoint, end: int) -> int:
        """The last transaction before a moment, which is that of the transaction `end`."""
        match last:
            case int():
                return self.find(last - 1).seq
            case CommitStep():
                return self.find(CommitStep(last.ts - 1, is_ddl=True)).seq
            case _:
                return end - 1


def _point(written: WrittenMoment) -> MomentPoint:
    return parse_executed(written.text) if written.is_gtid else point_of(written.text)
