"""Expressions after GROUP BY: each is made of groups, of aggregates, and of columns that groups determine.
Not here: the aggregates (`aggregates.py`), SELECT (`selects.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.dialects.queries.aggregates import AGGREGATES, one_of
from strata_cdc.dialects.queries.comparing import NotComparedError
from strata_cdc.dialects.queries.expressions import ExpressionReader
from strata_cdc.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.dialects.queries.values import QueryValue


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
