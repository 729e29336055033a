"""SELECT, UNION, FROM and WITH: a query of MySQL's SQL as one of DuckDB, with columns c0, c1 and so on.
Not here: expressions (`expressions.py`), the statement (`query.py`)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.dialects.queries.aggregates import AGGREGATES, one_of, ordered
from strata_cdc.dialects.queries.comparing import NotComparedError, as_kind, sides, united
from strata_cdc.dialects.queries.expressions import ExpressionReader
from strata_cdc.dialects.queries.functions import FUNCTIONS
from strata_cdc.dialects.queries.meanings import AnyMeaning
from strata_cdc.dialects.queries.ranges import ranges_in
from strata_cdc.dialects.queries.relation import Relation
from strata_cdc.dialects.queries.scope import NameScope
from strata_cdc.dialects.queries.statement_text import BEFORE_NAMES, column_name
from strata_cdc.dialects.queries.values import QueryValue
from strata_cdc.errors import QueryError
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.dialects.queries.meanings import Meanings
    from strata_cdc.dialects.queries.ranges import ColumnRanges
    from strata_cdc.dialects.queries.statement_text import StatementText


# Expressions after GROUP BY: each is made of groups, of aggregates, and of columns that groups determine.
class GroupedReader(ExpressionReader):
    """Reads the expressions after GROUP BY of one SELECT.

    Args:
        rows: Reads the same expressions row by row, as in arguments of aggregates.
        groups: What is grouped by.
    """

    def __init__(self, rows: ExpressionReader, groups: Sequence[QueryValue]) -> None:
        super().__init__(rows.text, rows.scope, rows.functions, rows.subquery, rows.connection_collation)
        self._rows = rows
        self._groups = {group.sql: group for group in groups}

    def value(self, node: exp.Expr) -> QueryValue:
        """As `ExpressionReader.value`, for a group of rows."""
        if type(node) in AGGREGATES:
            return self._aggregate(node)
        if node.find(exp.AggFunc) is None and not isinstance(node, (exp.Literal, exp.Subquery)):
            group = self._group(node)
            if group is not None:
                return group
        return super().value(node)

    def _aggregate(self, node: exp.Expr) -> QueryValue:
        scope = self.scope
        scope.is_grouped = False
        try:
            aggregate = AGGREGATES[type(node)](self._rows, node)
        except NotComparedError as error:
            self.refuse(str(error), node)
        finally:
            scope.is_grouped = True
        return replace(aggregate, name=node.sql(dialect="mysql"))

    def _group(self, node: exp.Expr) -> QueryValue | None:
        """The value of a group, if an expression is what is grouped by."""
        try:
            value = self._rows.value(node)
        except QueryError:
            return None
        if value.sql not in self._groups:
            return None
        return self._shown(value)

    def _shown(self, value: QueryValue) -> QueryValue:
        try:
            return replace(value, sql=one_of(value))
        except NotComparedError as error:
            raise QueryError(str(error)) from None

    def key_of_group(self, node: exp.Expr) -> str | None:
        """What an expression that is grouped by is ordered by; None if it is another expression."""
        if node.find(exp.AggFunc) is not None:
            return None
        value = self._rows.value(node)
        if value.sql not in self._groups:
            return None
        return f"first({self.key(value, node, ordered=True)})"

    def column(self, node: exp.Expr) -> QueryValue:
        """A column that a group determines, because the table's key is grouped by.

        Raises:
            QueryError: Which of a group's values is meant is not determined.
        """
        relation, number = self.scope.find(node, self.text)
        if relation not in self.scope.relations:
            return relation.value(number)
        if self.scope.is_determined(relation, list(self._groups)):
            value = relation.value(number)
            return replace(value, sql=f"first({value.sql})")
        return self.refuse(f"{node.sql(dialect='mysql')} is neither grouped by nor in an aggregate", node)


_SELECT_PARTS: Final = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_"}
)
_UNION_PARTS: Final = frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"})
_TABLE_PARTS: Final = frozenset({"this", "db", "alias", "version", "hints", "joins"})
_JOIN_PARTS: Final = frozenset({"this", "on", "using", "side", "kind"})
_GROUPING: Final = tuple(kind for kind in AGGREGATES if kind is not exp.AnyValue)
"""Aggregates that make a group of all rows. ANY_VALUE() does not."""


class WrittenQuery(Struct, frozen=True):
    """A query for DuckDB."""

    sql: str
    columns: tuple[tuple[str, QueryValue], ...]
    """Names, and values, by c0, c1 and so on."""

    def relation(self, alias: str, name: str) -> Relation:
        """The query in FROM."""
        return Relation(alias, name, None, tuple((own, value.kind) for own, value in self.columns))


class _SelectItem(Struct, frozen=True):
    """A column of a SELECT."""

    name: str | None
    node: exp.Expr
    column: QueryValue | None = None
    """If it comes from `*`: the column."""

    @property
    def shown(self) -> str:
        """Its name in the result."""
        return column_name(self.node) if self.name is None else self.name


class _WithQuery(Struct, frozen=True):
    """A query of WITH, and those before it, which it can name."""

    query: exp.Expr
    known: Mapping[str, _WithQuery]


class QuerySession:
    """What is the same for all queries that are read together.

    Args:
        folds_names: Whether the server ignores the case of tables' names.
    """

    def __init__(self, *, folds_names: bool) -> None:
        self.folds_names = folds_names
        self.numbers = count()
        """Of the relations in DuckDB's SQL."""
        self.ranges: dict[str, list[ColumnRanges]] = {}
        """What WHERE says of single columns, by the alias of their relation."""


class SelectReader:
    """Reads the queries of one statement.

    Args:
        table: Finds a table of FROM: the name that DuckDB has for it, and its columns.
        session: What is the same for all queries that are read together.
        connection_collation: The collation of literals.
        meanings: Receives each name with the columns that it means.
    """

    def __init__(
        self,
        text: StatementText,
        table: Callable[[exp.Table, str], tuple[str, Relation]],
        session: QuerySession,
        connection_collation: str,
        meanings: Meanings | None = None,
    ) -> None:
        self._text, self._table, self._session = text, table, session
        self._collation, self._meanings = connection_collation, meanings or AnyMeaning()

    def query(
        self, node: exp.Expr, outer: NameScope | None, known: Mapping[str, _WithQuery] | None = None
    ) -> WrittenQuery:
        """A SELECT or UNION, in parentheses or not.

        Args:
            node: The query.
            outer: The SELECT around it.
            known: Queries of WITH that it can name, by folded name.

        Raises:
            QueryError: Some of it is not known here.
        """
        known = {**(known or {}), **self._with(node)}
        if isinstance(node, exp.Subquery) and not node.alias:
            self._only(node, frozenset({"this", "with_"}))
            return self.query(node.this, outer, known)
        if isinstance(node, exp.Union):
            return self._union(node, outer, known)
        if isinstance(node, exp.Select):
            return self._select(node, outer, known)
        raise self._text.error(f"{type(node).__name__.upper()} is not translated", node)

    def _with(self, node: exp.Expr) -> dict[str, _WithQuery]:
        clause = node.args.get("with_")
        if clause is None:
            return {}
        if clause.args.get("recursive"):
            raise self._text.error("WITH RECURSIVE is not translated", clause)
        queries: dict[str, _WithQuery] = {}
        for query in clause.expressions:
            if query.args["alias"].columns:
                raise self._text.error("names of columns after a name of WITH are not translated", query)
            queries[fold_name(query.alias)] = _WithQuery(query.this, dict(queries))
        return queries

    def _only(self, node: exp.Expr, parts: frozenset[str]) -> None:
        for name, value in node.args.items():
            if value and name not in parts:
                raise self._text.unread(name, node)

    def _alias(self) -> str:
        return f"s{next(self._session.numbers)}"

    # UNION --------------------------------------------------------------------------------------

    def _union(self, node: exp.Expr, outer: NameScope | None, known: Mapping[str, _WithQuery]) -> WrittenQuery:
        self._only(node, _UNION_PARTS)
        left, right = self.query(node.this, outer, known), self.query(node.expression, outer, known)
        if len(left.columns) != len(right.columns):
            raise self._text.error("both sides of UNION have equally many columns", node)
        columns, parts = [], []
        try:
            for (name, first), (_, second) in zip(left.columns, right.columns, strict=True):
                columns.append((name, united([first, second])))
        except NotComparedError as error:
            raise self._text.error(str(error), node) from None
        for part in (left, right):
            alias = self._alias()
            # All names and literals of DuckDB's SQL are made here; those of the statement are quoted.
            shown = [
                f"{as_kind(replace(value, sql=f'{alias}.c{number}', exact=None), kind)} AS c{number}"
                for number, ((_, value), (_, kind)) in enumerate(zip(part.columns, columns, strict=True))
            ]
            parts.append(f"SELECT {', '.join(shown)} FROM ({part.sql}) AS {alias}")  # noqa: S608  as above
        sql = " UNION ALL ".join(parts)
        made = [(name, QueryValue("", kind)) for name, kind in columns]
        return WrittenQuery(self._finished(sql, made, node, is_distinct=bool(node.args.get("distinct"))), tuple(made))

    def _finished(
        self, sql: str, columns: Sequence[tuple[str | None, QueryValue]], node: exp.Expr, *, is_distinct: bool
    ) -> str:
        """A query with DISTINCT, ORDER BY and LIMIT around it, which name its columns."""
        alias = self._alias()
        values = [
            (name, replace(value, sql=f'"{alias}"."c{number}"', exact=None, literal=None))
            for number, (name, value) in enumerate(columns)
        ]
        shown = [value.sql for _, value in values]
        reader = self._reader(NameScope())
        tail = ""
        if is_distinct:
            shown = [self._one_of(value, node) for _, value in values]
            tail = f" GROUP BY {', '.join(reader.key(value, node) for _, value in values)}"
        terms = [self._term(node_of_term, values, reader, is_distinct=is_distinct) for node_of_term in _terms(node)]
        order = f" ORDER BY {', '.join(terms)}" if terms else ""
        names = ", ".join(f"{value} AS c{number}" for number, value in enumerate(shown))
        return f"SELECT {names} FROM ({sql}) AS {alias}{tail}{order}{self._limit(node)}"  # noqa: S608  as above

    def _one_of(self, value: QueryValue, node: exp.Expr) -> str:
        try:
            return one_of(value)
        except NotComparedError as error:
            raise self._text.error(str(error), node) from None

    def _term(
        self,
        node: exp.Expr,
        values: Sequence[tuple[str | None, QueryValue]],
        reader: ExpressionReader,
        *,
        is_distinct: bool,
    ) -> str:
        """A term of ORDER BY that is a column of the result."""
        ordinal = self._position(node.this, len(values))
        named = [number for number, (name, _) in enumerate(values) if name and _names(node.this, name)]
        if ordinal is None and len(named) != 1:
            raise self._text.error("ORDER BY names one column of the result here", node)
        value = values[named[0] if ordinal is None else ordinal][1]
        key = reader.key(value, node, ordered=True)
        return _directed(f"first({key})" if is_distinct else key, node)

    # SELECT -------------------------------------------------------------------------------------

    def _reader(self, scope: NameScope, known: Mapping[str, _WithQuery] | None = None) -> ExpressionReader:
        def subquery(node: exp.Expr, outer: NameScope) -> tuple[str, list[QueryValue]]:
            query = self.query(node, outer, known)
            values = [replace(value, sql=f"c{number}", exact=None) for number, (_, value) in enumerate(query.columns)]
            return query.sql, values

        return ExpressionReader(self._text, scope, FUNCTIONS, subquery, self._collation)

    def _select(self, node: exp.Expr, outer: NameScope | None, known: Mapping[str, _WithQuery]) -> WrittenQuery:
        self._only(node, _SELECT_PARTS)
        scope = NameScope(outer, folds_names=self._session.folds_names, meanings=self._meanings)
        rows = self._reader(scope, known)
        source = self._from(node, scope, rows, known)
        items = self._items(node, scope)
        if not items:
            raise self._text.error("this is no query: SELECT names no column", node)
        where = node.args.get("where")
        condition = "" if where is None else f" WHERE {rows.condition(where.this)}"
        for alias, ranges in ranges_in(where.this, scope) if where is not None else ():
            self._session.ranges.setdefault(alias, []).append(ranges)
        group, having = node.args.get("group"), node.args.get("having")
        is_grouped = self._is_grouped(node, [*(item.node for item in items), *_terms(node)])
        if having is not None and not is_grouped:
            raise self._text.error("HAVING without GROUP BY is not translated: WHERE", having)
        tail, reader = "", rows
        if is_grouped:
            groups = self._groups(group, items, scope, rows)
            keys = [rows.key(value, node) for value in groups]
            tail = f" GROUP BY {', '.join(keys)}" if keys else ""
            reader = GroupedReader(rows, groups)
            scope.is_grouped = True
            if having is not None:
                tail += f" HAVING {reader.condition(self._named(having.this, items, scope, is_strict=True))}"
        values = [(item.name, self._item_value(item, reader)) for item in items]
        columns = tuple((item.shown, value) for item, (_, value) in zip(items, values, strict=True))
        head = f"SELECT {', '.join(f'{value.sql} AS c{number}' for number, (_, value) in enumerate(values))}{source}"
        if node.args.get("distinct"):
            self._only(node.args["distinct"], frozenset())
            sql = self._finished(f"{head}{condition}{tail}", values, node, is_distinct=True)
            return WrittenQuery(sql, columns)
        terms = [self._order(node_of_term, items, values, scope, reader) for node_of_term in _terms(node)]
        order = f" ORDER BY {', '.join(terms)}" if terms else ""
        return WrittenQuery(f"{head}{condition}{tail}{order}{self._limit(node)}", columns)

    def _is_grouped(self, node: exp.Expr, parts: Sequence[exp.Expr]) -> bool:
        """Whether the rows of a SELECT are put in groups, or in one.

        Args:
            node: The SELECT.
            parts: What it shows, and by what it is ordered.
        """
        if node.args.get("group") is not None:
            return True
        has_aggregate = any(map(_has_aggregate, parts))
        if has_aggregate and not any(_has_aggregate(part, _GROUPING) for part in parts):
            raise self._text.error("ANY_VALUE() makes no group of all rows: GROUP BY", node)
        return has_aggregate

    def _item_value(self, item: _SelectItem, reader: ExpressionReader) -> QueryValue:
        if item.column is None or isinstance(reader, GroupedReader):
            return reader.value(item.node)
        return item.column

    def _items(self, node: exp.Expr, scope: NameScope) -> list[_SelectItem]:
        items: list[_SelectItem] = []
        for item in node.expressions:
            if isinstance(item, exp.Star) and items:
                raise self._text.error("* is the first of the list, or has its table before it", item)
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                self._only(item.this if isinstance(item, exp.Column) else item, frozenset())
                items += self._star(item, scope)
            elif isinstance(item, exp.Alias):
                items.append(_SelectItem(item.alias.lstrip(BEFORE_NAMES), item.this))
            else:
                inner = item.unnest()
                items.append(_SelectItem(inner.name if isinstance(inner, exp.Column) else None, item))
        return items

    def _star(self, node: exp.Expr, scope: NameScope) -> list[_SelectItem]:
        table = node.args.get("table") if isinstance(node, exp.Column) else None
        columns = list(scope.columns(table.name if table is not None else None))
        if not columns:
            raise self._text.error("* without a table", node)
        self._meanings.star(node, columns)
        return [
            _SelectItem(
                relation.columns[number][0],
                exp.column(exp.to_identifier(relation.columns[number][0], quoted=True), table=relation.name),
                relation.value(number),
            )
            for relation, number in columns
        ]

    def _groups(
        self, group: exp.Expr | None, items: Sequence[_SelectItem], scope: NameScope, rows: ExpressionReader
    ) -> list[QueryValue]:
        if group is None:
            return []
        self._only(group, frozenset({"expressions"}))
        values = []
        for item in group.expressions:
            ordinal = self._position(item, len(items))
            node = items[ordinal].node if ordinal is not None else item
            if ordinal is None and isinstance(item, exp.Column) and not scope.own(item):
                node = self._named(item, items, scope)
            values.append(rows.value(node))
        return values

    def _named(
        self, node: exp.Expr, items: Sequence[_SelectItem], scope: NameScope, *, is_strict: bool = False
    ) -> exp.Expr:
        """An expression with the expressions of the SELECT in the places of their names.

        Args:
            node: The expression.
            items: The columns of the SELECT.
            scope: The columns of its relations.
            is_strict: Whether a name that is also another column's is refused.
        """
        aliases: dict[str, exp.Expr] = {}
        several: set[str] = set()
        for name, of_name in ((fold_name(item.name), item.node) for item in items if item.name):
            several |= {name} if aliases.setdefault(name, of_name) != of_name else set()

        def substituted(inner: exp.Expr) -> exp.Expr:
            if not isinstance(inner, exp.Column) or inner.table:
                return inner
            meant = aliases.get(fold_name(inner.name))
            if fold_name(inner.name) in several:
                raise self._text.error(f"several columns of the result are called {inner.name}", inner)
            if meant is None or (isinstance(meant, exp.Column) and fold_name(meant.name) == fold_name(inner.name)):
                return inner
            if is_strict and scope.own(inner):
                raise self._text.error(f"{inner.name} is a column and the name of another expression", inner)
            return exp.Paren(this=meant.copy())

        return _transformed(node, substituted)

    def _order(
        self,
        node: exp.Expr,
        items: Sequence[_SelectItem],
        values: Sequence[tuple[str | None, QueryValue]],
        scope: NameScope,
        reader: ExpressionReader,
    ) -> str:
        ordinal = self._position(node.this, len(items))
        if ordinal is not None:
            meant = items[ordinal].node
        elif isinstance(node.this, exp.Column):
            meant = self._named(node.this, items, scope)
        else:
            meant = self._named(node.this, items, scope, is_strict=True)
        meant = meant.unnest()
        if isinstance(reader, GroupedReader):
            key = reader.key_of_group(meant)
            if key is not None:
                return _directed(key, node)
        if ordinal is not None and items[ordinal].column is not None:
            return _directed(reader.key(values[ordinal][1], node, ordered=True), node)
        return ordered(reader, exp.Ordered(this=meant, desc=node.args.get("desc")))

    def _position(self, node: exp.Expr, most: int) -> int | None:
        """The column that a whole number in GROUP BY or ORDER BY means; None if it is no such number."""
        node = node.unnest()
        if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
            return None
        if not 0 < int(node.name) <= most:
            raise self._text.error(f"there is no column {node.name}", node)
        return int(node.name) - 1

    def _limit(self, node: exp.Expr) -> str:
        made = ""
        for part, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
            clause = node.args.get(part)
            if clause is None:
                continue
            if part == "offset" and node.args.get("limit") is None:
                raise self._text.error("OFFSET comes after LIMIT", node)
            value = clause.expression
            if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
                raise self._text.error(f"{word} has a whole number", node)
            made += f" {word} {clause.expression.name}"
        return made

    # FROM ---------------------------------------------------------------------------------------

    def _from(self, node: exp.Expr, scope: NameScope, rows: ExpressionReader, known: Mapping[str, _WithQuery]) -> str:
        clause = node.args.get("from_")
        if clause is None:
            return ""
        levels = [self._level(node)]
        relation = clause.this
        while True:
            levels.append(self._level(relation))
            if relation.alias or not isinstance(relation.this, (exp.Table, exp.Subquery)):
                break
            # (a JOIN b) JOIN c is a JOIN b JOIN c; servers print the joins of views so.
            relation = relation.this
        sql = f" FROM {self._relation(relation, scope, known)}"
        for join in (join for level in reversed(levels) for join in level):
            sql += self._join(join, scope, rows, known)
        return sql

    def _level(self, node: exp.Expr) -> list[exp.Expr]:
        """The joins of a FROM, or of a pair of parentheses in it."""
        joins = node.args.get("joins") or []
        has_comma = [not (join.args.get("on") or join.args.get("using") or join.side or join.kind) for join in joins]
        if any(has_comma) and not all(has_comma):
            raise self._text.error("commas and JOIN in one FROM are grouped in different ways: write CROSS JOIN", node)
        return joins

    def _join(self, node: exp.Expr, scope: NameScope, rows: ExpressionReader, known: Mapping[str, _WithQuery]) -> str:
        self._only(node, _JOIN_PARTS)
        side, kind = (str(node.args.get(part) or "").upper() for part in ("side", "kind"))
        if side not in {"", "LEFT", "RIGHT"} or kind not in {"", "INNER", "CROSS", "OUTER", "STRAIGHT_JOIN"}:
            raise self._text.error(f"{f'{side} {kind}'.strip()} JOIN is not translated", node)
        self._only(node.this, _TABLE_PARTS - {"joins"})
        relation = self._relation(node.this, scope, known)
        using, on = node.args.get("using"), node.args.get("on")
        condition = "true"
        if using:
            if side == "RIGHT" or len(scope.relations) != 2:
                raise self._text.error("USING joins two relations here, and not by RIGHT JOIN: write ON", node)
            condition = " AND ".join(self._same(name, scope, node) for name in using)
        elif on is not None:
            condition = rows.condition(on)
        elif side:
            raise self._text.error(f"{side} JOIN has ON", node)
        return f" {side or 'INNER'} JOIN {relation} ON {condition}"

    def _same(self, name: exp.Expr, scope: NameScope, node: exp.Expr) -> str:
        folded = fold_name(name.name)
        pairs = [relation.numbers(name.name) for relation in scope.relations]
        if any(len(numbers) != 1 for numbers in pairs):
            raise self._text.error(f"{name.name} is not one column of each side", node)
        first, second = (relation.value(numbers[0]) for relation, numbers in zip(scope.relations, pairs, strict=True))
        try:
            left, right = sides(first, second, ordered=False)
        except NotComparedError as error:
            raise self._text.error(str(error), node) from None
        scope.shared.add(folded)
        return f"{left} = {right}"

    def _relation(self, node: exp.Expr, scope: NameScope, known: Mapping[str, _WithQuery]) -> str:
        """Adds a relation to the scope, and gives its SQL."""
        alias = self._alias()
        if isinstance(node, exp.Subquery) and node.alias:
            self._only(node, frozenset({"this", "alias", "joins"}))
            written = self.query(node.this, None, known)
            return self._put(scope, node, f"({written.sql})", self._of_query(written, alias, node.alias, node))
        if not isinstance(node, exp.Table):
            raise self._text.error(f"{type(node).__name__.upper()} in FROM is not translated", node)
        self._only(node, _TABLE_PARTS)
        query = None if node.args.get("db") else known.get(fold_name(node.name))
        if query is not None:
            written = self.query(query.query, None, query.known)
            return self._put(scope, node, f"({written.sql})", self._of_query(written, alias, node.alias_or_name, node))
        name, relation = self._table(node, alias)
        return self._put(scope, node, name, relation)

    def _of_query(self, query: WrittenQuery, alias: str, name: str, node: exp.Expr) -> Relation:
        """A query in FROM; MySQL refuses those with two columns of one name."""
        seen = set[str]()
        for column, _ in query.columns:
            if fold_name(column) in seen:
                raise self._text.error(f"two columns of {name} are called {column}", node)
            seen.add(fold_name(column))
        return query.relation(alias, name)

    def _put(self, scope: NameScope, node: exp.Expr, sql: str, relation: Relation) -> str:
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self._text.error("names of columns after an alias are not translated", node)
        if any(near.name == relation.name and near.database == relation.database for near in scope.relations):
            raise self._text.error(f"two relations are called {relation.name}", node)
        scope.relations.append(relation)
        return f'{sql} AS "{relation.alias}"'


def _terms(node: exp.Expr) -> list[exp.Expr]:
    """The terms of ORDER BY. NULL and literals order nothing; whole numbers are columns of the result."""
    order = node.args.get("order")
    return [] if order is None else [term for term in order.expressions if not _orders_nothing(term.this.unnest())]


def _orders_nothing(node: exp.Expr) -> bool:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return isinstance(node, (exp.Null, exp.Boolean, exp.Literal)) and not is_number


def _directed(key: str, node: exp.Expr) -> str:
    return f"{key} DESC NULLS LAST" if node.args.get("desc") else f"{key} ASC NULLS FIRST"


def _names(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and fold_name(node.name) == fold_name(name)


def _has_aggregate(node: exp.Expr, kinds: tuple[type[exp.Expr], ...] = (exp.AggFunc,)) -> bool:
    """Whether an expression has an aggregate that is not in a subquery of its own."""
    if isinstance(node, kinds):
        return True
    if isinstance(node, (exp.Query, exp.Subquery)):
        return False
    return any(_has_aggregate(child, kinds) for child in node.iter_expressions())


def _transformed(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy with other columns; subqueries have names of their own."""
    if isinstance(node, exp.Column):
        return change(node)
    if isinstance(node, exp.Query):
        return node
    copied = node.copy()
    for inner in list(copied.find_all(exp.Column)):
        if inner.find_ancestor(exp.Query) is None:
            inner.replace(change(inner))
    return copied
