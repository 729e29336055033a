"""The relations of a SELECT and the columns that its expressions can name.
Not here: one relation (`relation.py`), expressions (`expressions.py`), reading FROM (`selects.py`)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from strata_cdc.dialects.queries.meanings import AnyMeaning
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot import exp

    from strata_cdc.dialects.queries.meanings import Meanings
    from strata_cdc.dialects.queries.relation import Relation
    from strata_cdc.dialects.queries.statement_text import StatementText
    from strata_cdc.dialects.queries.values import QueryValue


class NameScope:
    """The relations of one SELECT, and those around it.

    Args:
        outer: The SELECT around it; None if there is none.
        folds_names: Whether the server ignores the case of tables' names.
        meanings: Receives each name with the columns that it means.
    """

    def __init__(
        self, outer: NameScope | None = None, *, folds_names: bool = False, meanings: Meanings | None = None
    ) -> None:
        self.outer, self.folds_names, self.meanings = outer, folds_names, meanings or AnyMeaning()
        self.relations: list[Relation] = []
        self.is_grouped = False
        """Whether expressions are read that come after GROUP BY: columns of rows are not there any more."""
        self.shared: set[str] = set()
        """Folded names of the columns of USING: without a table they mean the first relation's column."""

    def columns(self, table: exp.Identifier | str | None = None) -> Iterator[tuple[Relation, int]]:
        """The columns of `*`, or of `table.*`."""
        own = [near for near in self.relations if not table or self._is_called(near, str(table), "")]
        seen = set[str]()
        numbered = [(near, number) for near in own for number in range(len(near.columns))]
        shared = [] if table else [pair for pair in numbered if self._name(pair) in self.shared]
        for relation, number in (*shared, *numbered):
            name = self._name((relation, number))
            if not table and name in self.shared:
                if name in seen:
                    continue
                seen.add(name)
            if relation.visible is None or number in relation.visible:
                yield relation, number

    def column(self, node: exp.Expr, text: StatementText) -> QueryValue:
        """What a name means here or in a SELECT around this one.

        Raises:
            QueryError: There is no such column, or there are several.
        """
        relation, number = self.find(node, text)
        return relation.value(number)

    def find(self, node: exp.Expr, text: StatementText) -> tuple[Relation, int]:
        """The relation and the number of a column. Raises as `column`."""
        scope: NameScope | None = self
        nearer: list[Relation] = []
        while scope is not None:
            columns = scope.own(node)
            if len(columns) > 1 and fold_name(node.name) not in scope.shared:
                raise text.error(f"there are several columns {node.name}: name the table", node)
            if columns:
                if scope is not self and scope.is_grouped:
                    raise text.error("a subquery after GROUP BY does not name columns of the query around it", node)
                self.meanings.column(node, columns[0][0], nearer)
                return columns[0]
            nearer += scope.relations
            scope = scope.outer
        table = node.args.get("table")
        if table is not None and not any(self._is_called(near, table.name, "") for near in self.relations):
            raise text.error(f"there is no table {table.name} here", node)
        names = [name for relation in self.relations for name, _ in relation.columns]
        near = get_close_matches(node.name, names, n=3)
        hint = f"; near it are {', '.join(near)}" if near else ""
        raise text.error(f"there is no column {node.name}{hint}", node)

    def own(self, node: exp.Expr) -> list[tuple[Relation, int]]:
        """The columns of this SELECT's relations that a name may mean."""
        table, database = node.args.get("table"), node.args.get("db")
        return [
            (relation, number)
            for relation in self.relations
            if not table or self._is_called(relation, table.name, database.name if database else "")
            for number in relation.numbers(node.name)
        ]

    def _is_called(self, relation: Relation, name: str, database: str) -> bool:
        if database and (relation.database is None or self._folded(database) != self._folded(relation.database)):
            return False
        return self._folded(relation.name) == self._folded(name)

    def _folded(self, name: str) -> str:
        return fold_name(name) if self.folds_names else name

    @staticmethod
    def _name(pair: tuple[Relation, int]) -> str:
        return fold_name(pair[0].columns[pair[1]][0])

    def is_determined(self, relation: Relation, groups: Sequence[str]) -> bool:
        """Whether groups of rows have one row of a relation each: all columns of its key are among the groups."""
        return bool(relation.key) and all(relation.value(number).sql in groups for number in relation.key)
