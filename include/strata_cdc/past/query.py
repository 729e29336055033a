"""Runs a query over tables as they were: opens each table at its moment, and lets an engine answer.
Not here: what the query means (`dialects/queries/`), the tables (`table_at.py`), engines (`duckdb_engine.py`,
`spark_jobs/past_queries.py`), printing (`cli/sql.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.dialects.queries.query import PastQuery
from strata_cdc.errors import QueryError
from strata_cdc.flavour import Vendor
from strata_cdc.past.duckdb_engine import run_in_duckdb
from strata_cdc.past.moment import PastMoment, time_or_set
from strata_cdc.past.query_moments import QueryMoments
from strata_cdc.past.row_versions import row_versions
from strata_cdc.past.table_at import PastTables
from strata_cdc.past.table_rows import LoadedRows, MirrorRows
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import OnMissing, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.config.settings import Source
    from strata_cdc.dialects.queries.query import AnswerColumn, TableReference, TranslatedQuery
    from strata_cdc.dialects.queries.values import Kind
    from strata_cdc.past.row_versions import VersionBounds
    from strata_cdc.past.table_rows import TableRows
    from strata_cdc.schema.model.definition import TableDefinition

_LITERALS: Final = {Vendor.MYSQL: "utf8mb4_0900_ai_ci", Vendor.MARIADB: "utf8mb4_uca1400_ai_ci"}
"""The collation of literals in a session of utf8mb4."""


QueryEngine = Callable[["TranslatedQuery", "Mapping[str, TableRows]"], pa.Table]
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
        source: The source.
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
        names = {reference: _name(reference, tables) for reference in query.references()}
        own = [name for reference, name in names.items() if reference.at is None]
        written = QueryMoments(source.lake, source.name, store)
        moment = None
        if at is not None:
            moment = written.find(time_or_set(at))
        elif own:
            moment = tables.newest(own)
        moments = {reference: written.of(reference, moment) for reference in names}
        bounds = {reference: written.bounds(reference, moments[reference]) for reference in names}

        def definition(reference: TableReference) -> TableDefinition:
            return tables.definition(names[reference], moments[reference])

        translated = query.translate(
            definition,
            connection_collation=_LITERALS[tables.vendor],
            folds_names=tables.folds_names,
        )
        rows = {
            name: _rows(tables, names[reference], moments[reference], bounds[reference], numbers)
            for reference, (name, numbers) in translated.reads.items()
        }
        kinds = tuple(column.kind for column in translated.columns)
        return Answer(_shown(engine(translated, rows), translated.columns), kinds, moment)


def _name(reference: TableReference, tables: PastTables) -> TableName:
    if not reference.table:
        raise QueryError("FROM names something that is no table", remedy="Functions that give rows are not read.")
    if reference.database is None:
        raise QueryError(f"{reference.table} has no database", remedy=f"Write shop.{reference.table}, for example.")
    name = TableName(reference.database, reference.table)
    return name.lower() if tables.folds_names else name


def _rows(
    tables: PastTables, name: TableName, moment: PastMoment, bounds: VersionBounds | None, numbers: tuple[int, ...]
) -> TableRows:
    if bounds is None:
        return MirrorRows(tables.rows(name, moment), numbers)
    return LoadedRows(row_versions(tables.history(name, moment), bounds, numbers))


def _shown(found: pa.Table, columns: Sequence[AnswerColumn]) -> pa.Table:
    """The result under MySQL's names, in the types of the columns."""
    arrays = [_as_shown(found.column(at), column.kind.arrow) for at, column in enumerate(columns)]
    fields = [pa.field(column.name, array.type) for column, array in zip(columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _as_shown(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(column))])
    return column if column.type == kind else pc.cast(column, kind)
