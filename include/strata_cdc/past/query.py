"""Runs a query over tables as they were: opens each table at its moment, and lets DuckDB answer.
Not here: what the query means (`dialects/queries/`), the tables (`table_at.py`), printing (`cli/sql.py`)."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.arrow_columns import no_rows
from strata_cdc.dialects.queries.columns import kind_of, loaded_as
from strata_cdc.dialects.queries.query import PastQuery
from strata_cdc.errors import QueryError, one_line
from strata_cdc.flavour import Vendor
from strata_cdc.mirrors.data_files import names_of
from strata_cdc.past.moment import PastMoment, time_or_set
from strata_cdc.past.needed_rows import NeededRows
from strata_cdc.past.query_moments import QueryMoments
from strata_cdc.past.query_names import QueryNames, newest_moment
from strata_cdc.past.row_versions import row_versions
from strata_cdc.past.table_at import PastTables
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import verbatim_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.config.settings import Source
    from strata_cdc.dialects.queries.query import AnswerColumn, TranslatedQuery
    from strata_cdc.dialects.queries.ranges import Ranges
    from strata_cdc.dialects.queries.values import Kind
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.past.row_versions import VersionBounds
    from strata_cdc.schema.model.definition import TableName

_LITERALS: Final = {Vendor.MYSQL: "utf8mb4_0900_ai_ci", Vendor.MARIADB: "utf8mb4_uca1400_ai_ci"}
"""The collation of literals in a session of utf8mb4."""


_IN_PYTHON: Final = ("Python exception occurred while executing the UDF: ", "ValueError: ")
"""How DuckDB begins what a function of Python has raised."""


class Answer(Struct, frozen=True):
    """The rows of a query."""

    rows: pa.Table
    kinds: tuple[Kind, ...]
    """What MySQL knows of each column."""
    moment: PastMoment | None
    """The moment of the tables that name none of their own; None if all do, or if there are no tables."""


def answer(source: Source, statement: str, at: str | None = None) -> Answer:
    """Answers a query.

    Args:
        source: The source.
        statement: A SELECT of MySQL's SQL.
        at: The moment of tables that name none: a time or a GTID set; None: the last one that all of their mirrors have
            reached.

    Raises:
        QueryError: MySQL's answer is not known here; the message has the position.
        PastUnknownError: A table's rows are not known at the moment.
        StrataError: The lake or the store does not answer.
    """
    query = PastQuery(statement)
    engine = open_store(source.store_url, OnMissing.REFUSE)
    with PastTables(source.lake, source.name, engine) as tables:
        written = QueryMoments(source.lake, source.name, engine)
        references = query.references()
        own = [reference for reference in references if reference.at is None]
        moment = None
        if at is not None:
            moment = written.find(time_or_set(at))
        elif own:
            moment = newest_moment(tables, own)
        moment_of = cache(partial(written.of, moment=moment))
        # A range is refused before the tables are looked for.
        bounds = {reference: written.bounds(reference, moment_of(reference)) for reference in references}
        names = QueryNames(tables, moment_of, bounds)
        translated = query.translate(
            names, connection_collation=_LITERALS[tables.vendor], folds_names=tables.folds_names
        )
        loaded = {
            name: _table(
                tables,
                names.table_name(reference),
                moment_of(reference),
                bounds.get(reference),
                NeededRows(numbers, translated.ranges.get(reference, ())),
            )
            for reference, (name, numbers) in translated.reads.items()
        }
        kinds = tuple(column.kind for column in translated.columns)
        return Answer(_run(translated, loaded), kinds, moment)


def _table(
    tables: PastTables, name: TableName, moment: PastMoment, bounds: VersionBounds | None, needed: NeededRows
) -> pa.Table:
    if bounds is None:
        return _loaded(tables.rows(name, moment), needed)
    return row_versions(tables.history(name, moment), bounds, needed)


def _loaded(mirror: Mirror, needed: NeededRows) -> pa.Table:
    """The columns that a query reads, as c0, c1 and so on, in the types that DuckDB gets.

    For a column with values that it does not hold, such as zero dates, there is a column i0, i1 and so on, with the
    text of the value.
    """
    definition = mirror.definition
    columns = {number: definition.columns[number] for number in needed.numbers}
    texts = verbatim_names(definition)
    wanted = [column_name(column.name) for column in columns.values()]
    wanted += [texts[column.name] for column in columns.values() if column.name in texts and _has_invalid(mirror)]
    rows = _read(mirror, wanted, needed.within(definition))
    made = {}
    for number, column in columns.items():
        made[f"c{number}"] = _cast(rows[column_name(column.name)], loaded_as(kind_of(column)))
        text = texts.get(column.name)
        if text in wanted and rows[text].null_count < rows.num_rows:
            made[f"i{number}"] = rows[text]
    if not made:
        # COUNT(*) needs rows, and no column.
        made["n"] = pa.chunked_array([pa.nulls(mirror.snapshot.live_rows)])
    return pa.table(made)


def _has_invalid(mirror: Mirror) -> bool:
    return any(name == "_invalid" for name in mirror.schema.names)


def _read(mirror: Mirror, wanted: Sequence[str], within: Mapping[str, Ranges]) -> pa.Table:
    if not wanted:
        return pa.table({})
    return pa.concat_tables([no_rows(names_of(mirror.exact_schema, wanted)), *mirror.exact_batches(wanted, within)])


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)


def _run(query: TranslatedQuery, tables: dict[str, pa.Table]) -> pa.Table:
    # Imported here: only queries need DuckDB.
    import duckdb  # noqa: PLC0415  see above
    from duckdb.func import PythonUDFType  # noqa: PLC0415  see above
    from duckdb.sqltypes import VARCHAR  # noqa: PLC0415  see above

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET scalar_subquery_error_on_multiple_rows = true")
        try:
            for name, function in query.functions.items():
                of_all = _for_all(function)
                connection.create_function(name, of_all, [VARCHAR, VARCHAR], VARCHAR, type=PythonUDFType.ARROW)
            for macro in query.macros:
                connection.execute(macro)
            for name, rows in tables.items():
                connection.register(f"{name}_rows", rows)
                # Names are t0, t1, c0, c1 and so on.
                connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {_columns(rows)} FROM {name}_rows")  # noqa: S608
            found = connection.execute(query.sql).fetch_arrow_table()
        except duckdb.Error as error:
            raise _refusal(error) from None
    return _shown(found, query.columns)


def _for_all(function: Callable[[str, str], str]) -> Callable[[pa.ChunkedArray, pa.ChunkedArray], pa.Array]:
    """A function of two texts as one of columns; DuckDB leaves out rows with NULL."""

    def every(texts: pa.ChunkedArray, names: pa.ChunkedArray) -> pa.Array:
        return pa.array(map(function, texts.to_pylist(), names.to_pylist()), pa.string())

    return every


def _columns(rows: pa.Table) -> str:
    """The columns of a table; a value that its column does not hold is an error where it is read."""
    shown = []
    for name in rows.schema.names:
        other = f"i{name[1:]}"
        if name.startswith("i"):
            continue
        if other in rows.schema.names:
            kind = "DATE" if pa.types.is_date(rows[name].type) else "TIMESTAMP"
            kind = "VARCHAR" if pa.types.is_string(rows[name].type) else kind
            fail = f"CAST(error('the lake has no column for a value of the table: ' || {other}) AS {kind})"
            shown.append(f"CASE WHEN {other} IS NOT NULL THEN {fail} ELSE {name} END AS {name}")
        else:
            shown.append(name)
    return ", ".join(shown)


def _refusal(error: Exception) -> QueryError:
    kind, _, message = one_line(str(error).partition("\n")[0]).partition(": ")
    for begin in _IN_PYTHON:
        message = message.removeprefix(begin)
    if "out of range" in message:
        remedy = "The value is too large for its type: CAST one side, as in CAST(x AS DECIMAL(30, 0)) + 1."
    elif kind == "Invalid Input Error" and message.startswith("More than one row"):
        message, remedy = "a subquery that is a value gives several rows", "Limit it, or use IN."
    elif kind == "Invalid Input Error":
        remedy = "Leave these values out by WHERE, or compare them with COLLATE utf8mb4_0900_bin."
    else:
        message, remedy = f"{kind}: {message}", "Write it in another way."
    return QueryError(f"the query has no answer here: {message}", remedy=remedy)


def _shown(found: pa.Table, columns: Sequence[AnswerColumn]) -> pa.Table:
    """The result under MySQL's names, in the types of the columns."""
    arrays = [_as_shown(found.column(at), column.kind.arrow) for at, column in enumerate(columns)]
    fields = [pa.field(column.name, array.type) for column, array in zip(columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _as_shown(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(column))])
    return column if column.type == kind else pc.cast(column, kind)
