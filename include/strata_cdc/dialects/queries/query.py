"""A query of MySQL's SQL as a query of DuckDB: what it names, what it reads, and what its columns are.
Not here: running it (`past/query.py`), the differences that are handled or refused (`__init__.py`)."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.dialects.queries.collations import collation_key
from strata_cdc.dialects.queries.columns import kind_of
from strata_cdc.dialects.queries.functions import MACROS
from strata_cdc.dialects.queries.parts import PARTS
from strata_cdc.dialects.queries.scope import Relation
from strata_cdc.dialects.queries.selects import SelectReader
from strata_cdc.dialects.queries.statement_text import StatementText
from strata_cdc.dialects.queries.system_time import (
    VERSION_COLUMNS,
    SystemTimeRange,
    moment_of,
    range_of,
)
from strata_cdc.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from strata_cdc.dialects.queries.values import Kind
    from strata_cdc.schema.model.definition import TableDefinition

_COLUMN: Final = re.compile(r'"(s\d+)"\."c(\d+)"')
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
        """The tables that it names; names of WITH may be among them."""
        known = {one.alias for one in self._text.tree.find_all(exp.CTE)}
        tables = self._text.tree.find_all(exp.Table)
        found = [_reference(table) for table in tables if table.args.get("db") or table.name not in known]
        return list(dict.fromkeys(found))

    def translate(
        self,
        definition: Callable[[TableReference], TableDefinition],
        *,
        connection_collation: str,
        folds_names: bool = False,
    ) -> TranslatedQuery:
        """The query for DuckDB.

        Args:
            definition: The definition of a table at its moment; it may raise an error.
            connection_collation: The collation of literals.
            folds_names: Whether the server ignores the case of tables' names.

        Raises:
            QueryError: MySQL's answer is not known here; the message has the position.
        """
        with not_too_deep():
            return self._translated(definition, connection_collation, folds_names=folds_names)

    def _translated(
        self, definition: Callable[[TableReference], TableDefinition], connection_collation: str, *, folds_names: bool
    ) -> TranslatedQuery:
        for node in self._text.tree.walk():
            self._text.require_parts(node, PARTS)
        tables: dict[TableReference, str] = {}
        aliases: dict[str, TableReference] = {}
        widths: dict[str, int] = {}

        def table(node: exp.Table, alias: str) -> tuple[str, Relation]:
            reference = _reference(node)
            found = definition(reference)
            relation = self._relation(alias, node, reference, found)
            aliases[alias], widths[alias] = reference, len(relation.columns)
            return tables.setdefault(reference, f"t{len(tables)}"), relation

        reader = SelectReader(self._text, table, connection_collation, folds_names=folds_names)
        made = reader.query(self._text.tree, None)
        read: dict[TableReference, set[int]] = {reference: set() for reference in tables}
        for alias, number in _COLUMN.findall(made.sql):
            # A text of the statement may look like a column.
            if int(number) < widths.get(alias, 0):
                read[aliases[alias]].add(int(number))
        keys = [key for name in sorted(set(_KEY.findall(made.sql))) if (key := collation_key(name)) is not None]
        macros = (*MACROS, *(macro for key in keys for macro in key.macros()))
        columns = tuple(
            AnswerColumn(name, value.kind)
            for name, (_, value) in zip(self._names(made.columns), made.columns, strict=True)
        )
        reads = {reference: (name, tuple(sorted(read[reference]))) for reference, name in tables.items()}
        functions = {name: function for key in keys for name, function in key.functions().items()}
        return TranslatedQuery(made.sql, macros, functions, columns, reads)

    def _relation(
        self, alias: str, node: exp.Table, reference: TableReference, definition: TableDefinition
    ) -> Relation:
        columns = definition.columns
        keys = {name.lower() for name in definition.primary_key}
        relation = Relation(
            alias,
            node.alias_or_name,
            None if node.alias else reference.database,
            tuple((column.name, kind_of(column)) for column in columns),
            key=frozenset(number for number, column in enumerate(columns) if column.name.lower() in keys),
            visible=frozenset(
                number for number, column in enumerate(columns) if not (column.hidden or column.invisible)
            ),
        )
        return relation if reference.versions is None else self._with_versions(relation, node)

    def _with_versions(self, relation: Relation, node: exp.Table) -> Relation:
        """A relation with the columns of versions; several of its rows may have one key."""
        for name, _ in VERSION_COLUMNS:
            if relation.numbers(name):
                raise self._text.error(f"the table has a column {name} of its own, so its versions have no such", node)
        count = len(relation.columns)
        added = range(count, count + len(VERSION_COLUMNS))
        return replace(
            relation,
            columns=(*relation.columns, *VERSION_COLUMNS),
            key=frozenset(),
            visible=(relation.visible or frozenset()).union(added),
        )

    def _names(self, columns: tuple[tuple[str | None, object], ...]) -> list[str]:
        """MySQL names what has no name by its text."""
        if all(name is not None for name, _ in columns):
            return [name or "" for name, _ in columns]
        written = self._text.written_columns()
        if len(written) != len(columns):
            return [name if name is not None else f"expression {at}" for at, (name, _) in enumerate(columns, 1)]
        return [text if name is None else name for (name, _), text in zip(columns, written, strict=True)]


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
    found = TableReference(database.name if database is not None else None, node.name)
    if version is None:
        return found
    if version.args["kind"] != "AS OF":
        return replace(found, versions=range_of(version))
    at = moment_of(version)
    return replace(found, at=at.text, at_gtid=at.is_gtid)
