"""A query of MySQL's SQL as a query of DuckDB: what it names, what it reads, and what its columns are.
Not here: running it (`past/query.py`), the differences that are handled or refused (`__init__.py`)."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.dialects.queries.collations import collation_key
from strata_cdc.dialects.queries.columns import kind_of
from strata_cdc.dialects.queries.functions import MACROS
from strata_cdc.dialects.queries.meanings import FirstMeanings, KeptMeanings
from strata_cdc.dialects.queries.relation import Relation
from strata_cdc.dialects.queries.selects import QuerySession, SelectReader
from strata_cdc.dialects.queries.statement_text import MomentDialect, PipesDialect, StatementText
from strata_cdc.dialects.queries.system_time import (
    VERSION_COLUMNS,
    SystemTimeRange,
    moment_of,
    range_of,
)
from strata_cdc.errors import QueryError, Usage
from strata_cdc.schema.ddl.context import ORACLE, REAL_AS_FLOAT
from strata_cdc.schema.ddl.lexer import ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from strata_cdc.dialects.queries.meanings import Meanings
    from strata_cdc.dialects.queries.ranges import ColumnRanges
    from strata_cdc.dialects.queries.selects import WrittenQuery
    from strata_cdc.dialects.queries.values import Kind
    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.schema.model.view import ViewDefinition

_COLUMN: Final = re.compile(r'"(s\d+)"\."c(\d+)"')
_NAME_TABLES: Final = "Name the tables of the view instead."
_KEY: Final = re.compile(r"\b(?:key|like|order)_(\w+)\(")


class TableReference(Struct, frozen=True):
    """A table of FROM, at one moment."""

    database: str | None
    table: str
    at: str | None = None
    """The text of its own moment; None: that of the statement."""
    at_gtid: bool = False
    """Whether the moment is a GTID set, and not a time."""
    versions: SystemTimeRange | None = None
    """Which versions of rows are meant; None: the rows at the moment."""


class AnswerColumn(Struct, frozen=True):
    """A column of the result."""

    name: str
    kind: Kind


class TranslatedQuery(Struct, frozen=True):
    """A query for DuckDB."""

    sql: str
    macros: tuple[str, ...]
    """Statements that come before it."""
    functions: Mapping[str, Callable[[str, str], str]]
    """Functions of Python that the macros use, by name: of two texts; they raise ValueError."""
    columns: tuple[AnswerColumn, ...]
    reads: Mapping[TableReference, tuple[str, tuple[int, ...]]]
    """The name of each table in DuckDB, and the numbers of the columns that are read: column n of its definition is
    called cn. With `versions`, the `VERSION_COLUMNS` follow the columns of the definition."""
    ranges: Mapping[TableReference, tuple[ColumnRanges, ...]]
    """Values that all of these columns have in each row that is needed: other rows may be skipped."""


class SchemaOfThen(Protocol):
    """What the names of tables mean to a query."""

    def table(self, reference: TableReference) -> TableDefinition:
        """The definition of a table at its moment; it may raise an error."""

    def view(self, reference: TableReference) -> ViewDefinition | None:
        """The definition of a view at its moment; None if the name is no view's."""

    def when_made(self, view: ViewDefinition) -> SchemaOfThen:
        """The same for the moment at which a view was made, whatever the moment of a reference."""


class PastQuery:
    """One query as it was written.

    Args:
        text: A SELECT of MySQL's SQL; tables may have FOR SYSTEM_TIME.

    Raises:
        QueryError: It is not one.
    """

    def __init__(self, text: str) -> None:
        with not_too_deep():
            self._text = StatementText(text)

    def references(self) -> list[TableReference]:
        """The tables and views that it names; names of WITH may be among them."""
        return list(dict.fromkeys(_reference(table) for table in tables_in(self._text.tree)))

    def translate(
        self, schema: SchemaOfThen, *, connection_collation: str, folds_names: bool = False
    ) -> TranslatedQuery:
        """The query for DuckDB.

        Args:
            schema: The tables and views.
            connection_collation: The collation of literals.
            folds_names: Whether the server ignores the case of tables' names.

        Raises:
            QueryError: MySQL's answer is not known here; the message has the position.
        """
        with not_too_deep():
            return _QueryTranslation(schema, QuerySession(folds_names=folds_names)).whole(
                self._text, connection_collation
            )


def tables_of_view(view: ViewDefinition, reference: TableReference) -> list[TableReference]:
    """The tables and views that a view names.

    Args:
        reference: It; its moment is theirs.

    Raises:
        QueryError: Its query is not read here.
    """
    with not_too_deep():
        tables = tables_in(view_text(view).tree)
        return list(dict.fromkeys(_reference_in_view(view, table, reference) for table in tables))


class _QueryTranslation:
    """The translation of one statement, or of the views in it.

    Args:
        schema: The tables and views.
        session: Of all queries that are read together.
        within: The views around the query.
    """

    def __init__(self, schema: SchemaOfThen, session: QuerySession, within: tuple[TableReference, ...] = ()) -> None:
        self._schema, self._session, self._within = schema, session, within
        self._tables: dict[TableReference, str] = {}
        self._aliases: dict[str, TableReference] = {}
        self._widths: dict[str, int] = {}

    def whole(self, text: StatementText, collation: str) -> TranslatedQuery:
        """A statement with all that it needs."""
        made = self._query(text, collation, _reference)
        keys = [key for name in sorted(set(_KEY.findall(made.sql))) if (key := collation_key(name)) is not None]
        macros = (*MACROS, *(macro for key in keys for macro in key.macros()))
        columns = tuple(AnswerColumn(name, value.kind) for name, value in made.columns)
        read = self._read(made.sql)
        reads = {reference: (name, tuple(sorted(read[reference]))) for reference, name in self._tables.items()}
        functions = {name: function for key in keys for name, function in key.functions().items()}
        return TranslatedQuery(made.sql, macros, functions, columns, reads, self._ranges())

    def _ranges(self) -> dict[TableReference, tuple[ColumnRanges, ...]]:
        """What the query says of single columns of a table; nothing if it names the table several times."""
        counts = Counter(self._aliases.values())
        return {
            reference: tuple(self._session.ranges.get(alias, ()))
            for alias, reference in self._aliases.items()
            if counts[reference] == 1
        }

    def _read(self, sql: str) -> dict[TableReference, set[int]]:
        """The columns that are read, by table."""
        read: dict[TableReference, set[int]] = {reference: set() for reference in self._tables}
        for alias, number in _COLUMN.findall(sql):
            # A text of the statement may look like a column.
            if int(number) < self._widths.get(alias, 0):
                read[self._aliases[alias]].add(int(number))
        return read

    def _query(
        self,
        text: StatementText,
        collation: str,
        referenced: Callable[[exp.Table], TableReference],
        meanings: Meanings | None = None,
    ) -> WrittenQuery:
        for node in text.tree.walk():
            text.require_parts(node, PARTS)

        def table(node: exp.Table, alias: str) -> tuple[str, Relation]:
            reference = referenced(node)
            view = self._schema.view(reference)
            if view is not None:
                return self._view(view, reference, node, alias)
            relation = _relation(text, alias, node, reference, self._schema.table(reference))
            self._aliases[alias], self._widths[alias] = reference, len(relation.columns)
            return self._tables.setdefault(reference, f"t{len(self._tables)}"), relation

        return SelectReader(text, table, self._session, collation, meanings).query(text.tree, None)

    # Views --------------------------------------------------------------------------------------

    def _view(
        self, view: ViewDefinition, reference: TableReference, node: exp.Table, alias: str
    ) -> tuple[str, Relation]:
        """A view as a query in FROM."""
        called = f"{reference.database}.{reference.table}"
        if reference.versions is not None:
            raise QueryError(f"{called} is a view, and FOR SYSTEM_TIME has only AS OF for views", remedy=_NAME_TABLES)
        if reference in self._within:
            raise QueryError(f"the view {called} names itself")
        outer, self._within = self._within, (*self._within, reference)
        try:
            made, names = self._of_view(view, reference)
        except (QueryError, Usage) as error:
            raise QueryError(f"the view {called} of that time: {error.message}", remedy=_NAME_TABLES) from None
        finally:
            self._within = outer
        columns = tuple((name, value.kind) for name, (_, value) in zip(names, made.columns, strict=True))
        return f"({made.sql})", Relation(alias, node.alias_or_name, None if node.alias else reference.database, columns)

    def _of_view(self, view: ViewDefinition, reference: TableReference) -> tuple[WrittenQuery, list[str]]:
        text = view_text(view)
        meanings: Meanings | None = None
        if not view.is_printed:
            first = FirstMeanings(text)
            then = _QueryTranslation(self._schema.when_made(view), self._session, self._within)
            then._query(text, view.collation or "", partial(_reference_in_view, view, reference=reference), first)
            first.keep()
            meanings = KeptMeanings(text)
        made = self._query(text, view.collation or "", partial(_reference_in_view, view, reference=reference), meanings)
        return made, column_names(view, [name for name, _ in made.columns])


def _relation(
    text: StatementText, alias: str, node: exp.Table, reference: TableReference, definition: TableDefinition
) -> Relation:
    columns = definition.columns
    keys = {name.lower() for name in definition.primary_key}
    relation = Relation(
        alias,
        node.alias_or_name,
        None if node.alias else reference.database,
        tuple((column.name, kind_of(column)) for column in columns),
        key=frozenset(number for number, column in enumerate(columns) if column.name.lower() in keys),
        visible=frozenset(number for number, column in enumerate(columns) if not (column.hidden or column.invisible)),
    )
    return relation if reference.versions is None else _with_versions(text, relation, node)


def _with_versions(text: StatementText, relation: Relation, node: exp.Table) -> Relation:
    """A relation with the columns of versions; several of its rows may have one key."""
    for name, _ in VERSION_COLUMNS:
        if relation.numbers(name):
            raise text.error(f"the table has a column {name} of its own, so its versions have no such", node)
    count = len(relation.columns)
    added = range(count, count + len(VERSION_COLUMNS))
    return replace(
        relation,
        columns=(*relation.columns, *VERSION_COLUMNS),
        key=frozenset(),
        visible=(relation.visible or frozenset()).union(added),
    )


def _reference_in_view(view: ViewDefinition, node: exp.Table, reference: TableReference) -> TableReference:
    """A table that a view names: its moment is that of the view."""
    if node.args.get("version") is not None:
        raise QueryError("it has FOR SYSTEM_TIME of its own, which is a time of the server's rows")
    database = node.args.get("db")
    name = database.name if database is not None else view.database
    return replace(reference, database=name, table=node.name, versions=None)


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Refuses a statement whose parts lie within each other more deeply than Python's stack allows.

    Raises:
        QueryError: It is such a statement.
    """
    try:
        yield
    except RecursionError:
        raise QueryError(
            "the statement is nested too deeply",
            remedy="Some twenty parentheses or subqueries within each other are read, and a hundred operators in a "
            "row; IN takes a list of any length.",
        ) from None


def _reference(node: exp.Table) -> TableReference:
    version, database = node.args.get("version"), node.args.get("db")
    reference = TableReference(database.name if database is not None else None, node.name)
    if version is None:
        return reference
    if version.args["kind"] != "AS OF":
        return replace(reference, versions=range_of(version))
    at = moment_of(version)
    return replace(reference, at=at.text, at_gtid=at.is_gtid)


# A statement with any other part is refused: sqlglot may have kept something in it that changes the meaning, as it
# keeps the NOT of NOT LIKE.
PARTS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Select: frozenset(
        {"joins", "from_", "where", "group", "having", "order", "limit", "offset", "distinct", "with_"}
    ),
    exp.Union: frozenset({"distinct", "order", "limit", "offset", "with_"}),
    exp.Subquery: frozenset({"alias", "with_", "joins"}),
    exp.With: frozenset({"recursive"}),
    exp.CTE: frozenset({"alias"}),
    exp.Alias: frozenset({"alias"}),
    exp.TableAlias: frozenset({"columns"}),
    exp.Table: frozenset({"db", "alias", "version", "hints", "joins"}),
    exp.Version: frozenset({"kind"}),
    exp.Join: frozenset({"on", "using", "side", "kind"}),
    exp.Identifier: frozenset({"quoted"}),
    exp.Ordered: frozenset({"desc", "nulls_first"}),
    exp.Interval: frozenset({"unit"}),
    exp.DataType: frozenset({"nested"}),
    exp.Literal: frozenset({"is_string"}),
    exp.Column: frozenset({"table", "db"}),
    exp.In: frozenset({"query"}),
    exp.Between: frozenset({"low", "high"}),
    exp.Like: frozenset({"negate"}),
    exp.Case: frozenset({"ifs", "default"}),
    exp.If: frozenset({"true", "false"}),
    exp.Cast: frozenset({"to"}),
    exp.Div: frozenset({"typed", "safe"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Concat: frozenset({"safe", "coalesce"}),
    exp.DateDiff: frozenset({"date_part_boundary"}),
    exp.ConcatWs: frozenset({"safe", "coalesce"}),
    exp.Count: frozenset({"big_int"}),
    exp.GroupConcat: frozenset({"separator"}),
    exp.Substring: frozenset({"start", "length"}),
    exp.SubstringIndex: frozenset({"delimiter", "count"}),
    exp.Trim: frozenset({"position"}),
    exp.Replace: frozenset({"replacement"}),
    exp.Length: frozenset({"binary"}),
    exp.Round: frozenset({"decimals"}),
    exp.DateAdd: frozenset({"unit"}),
    exp.DateSub: frozenset({"unit"}),
    exp.TimeToStr: frozenset({"format"}),
    exp.JSONExtractScalar: frozenset({"only_json_types", "scalar_only"}),
}
"""By type, besides this, expression and expressions, which most types have."""


_PIPES_AS_CONCAT: Final = 0x2
_HIGH_NOT_PRECEDENCE: Final = 0x20000000
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|"((?:[^"]|"")*)\"""", re.DOTALL)
_UNREAD: Final = (
    (NO_BACKSLASH_ESCAPES, re.compile(r"\\"), "NO_BACKSLASH_ESCAPES"),
    (_HIGH_NOT_PRECEDENCE, re.compile(r"\bNOT\b", re.IGNORECASE), "HIGH_NOT_PRECEDENCE"),
    (REAL_AS_FLOAT, re.compile(r"\bREAL\b", re.IGNORECASE), "REAL_AS_FLOAT"),
    (MSSQL, re.compile(r"\["), "MSSQL"),
    (ORACLE, re.compile(""), "ORACLE"),
)
"""Modes under which these parts of a text mean something else than here."""
_LONGEST_NAME: Final = 64


def view_text(view: ViewDefinition) -> StatementText:
    """The query of a view.

    Raises:
        QueryError: It is not read here.
    """
    for mode, part, name in _UNREAD:
        if view.sql_mode & mode and part.search(view.query):
            raise QueryError(f"its query was written with the sql_mode {name}, and is not read here")
    query = _QUOTED.sub(_as_name, view.query) if view.sql_mode & ANSI_QUOTES else view.query
    return StatementText(query, PipesDialect if view.sql_mode & _PIPES_AS_CONCAT else MomentDialect)


def _as_name(quoted: re.Match[str]) -> str:
    """A name in double quotes as a name in backticks; other quoted texts as they are."""
    name = quoted.group(1)
    if name is None:
        return quoted.group()
    if '"' in name or "`" in name:
        raise QueryError(f"its query has a name with quotes in it, which is not read here: {name}")
    return f"`{name}`"


def tables_in(tree: exp.Expr) -> Iterator[exp.Table]:
    """The tables that a query names; names of WITH may be among them if they are written with a database."""
    known = {cte.alias for cte in tree.find_all(exp.CTE)}
    yield from (table for table in tree.find_all(exp.Table) if table.args.get("db") or table.name not in known)


def column_names(view: ViewDefinition, shown: Sequence[str]) -> list[str]:
    """The names of a view's columns.

    Args:
        shown: The names of the columns of its query.

    Raises:
        QueryError: They are not known here.
    """
    if view.columns:
        if len(view.columns) != len(shown):
            raise QueryError(f"it has {len(view.columns)} columns, and its query {len(shown)}")
        return list(view.columns)
    # The server renames what cannot be the name of a column (sql/sql_view.cc, `make_valid_column_names`).
    return [
        f"Name_exp_{number}" if len(name) > _LONGEST_NAME or name.endswith(" ") else name
        for number, name in enumerate(shown, 1)
    ]
