"""Which columns the names of a view's query meant when the view was made: the server keeps a view with every name in
full, so that columns of later times change nothing.
Not here: finding the column of a name (`scope.py`), the view's relation (`query.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.dialects.queries.relation import Relation
    from strata_cdc.dialects.queries.statement_text import StatementText


class Meanings(Protocol):
    """Receives each name of a query with the columns that it means."""

    def column(self, node: exp.Expr, relation: Relation, nearer: Sequence[Relation]) -> None:
        """A column.

        Args:
            node: As it is written.
            nearer: The relations of the queries inside that of `relation`, in which the name was looked for first.

        Raises:
            QueryError: The name cannot be kept.
        """

    def star(self, node: exp.Expr, columns: Sequence[tuple[Relation, int]]) -> None:
        """The columns of a `*`."""


class AnyMeaning:
    """For a statement whose names mean what they mean now."""

    def column(self, node: exp.Expr, relation: Relation, nearer: Sequence[Relation]) -> None:
        """See `Meanings`."""

    def star(self, node: exp.Expr, columns: Sequence[tuple[Relation, int]]) -> None:
        """See `Meanings`."""


class FirstMeanings:
    """Collects the meanings of a view's names at the time when it was made.

    Args:
        text: The view's query.
    """

    def __init__(self, text: StatementText) -> None:
        self._text = text
        self._columns: dict[int, Relation] = {}
        self._stars: dict[int, list[exp.Expr]] = {}

    def column(self, node: exp.Expr, relation: Relation, nearer: Sequence[Relation]) -> None:
        """See `Meanings`."""
        if node.args.get("table") is not None:
            return
        if any(fold_name(near.name) == fold_name(relation.name) for near in nearer):
            raise self._text.error(f"{node.name} is of an outer {relation.name}, and there is an inner one", node)
        self._columns[_position(node)] = relation

    def star(self, node: exp.Expr, columns: Sequence[tuple[Relation, int]]) -> None:
        """See `Meanings`."""
        self._stars[id(node)] = [_named(relation.columns[number][0], relation) for relation, number in columns]

    def keep(self) -> None:
        """Writes the names of the query in full."""
        for select in list(self._text.tree.find_all(exp.Select)):
            shown = [self._stars.get(id(item), [item]) for item in select.expressions]
            select.set("expressions", [item for several in shown for item in several])
        for node in list(self._text.tree.find_all(exp.Column)):
            relation = self._columns.get(_position(node))
            if relation is not None and node.args.get("table") is None:
                _qualify(node, relation)


class KeptMeanings:
    """For a view whose names are written in full: what is not was the name of an expression when the view was made.

    Args:
        text: The view's query.
    """

    def __init__(self, text: StatementText) -> None:
        self._text = text

    def column(self, node: exp.Expr, relation: Relation, nearer: Sequence[Relation]) -> None:  # noqa: ARG002  see `Meanings`
        """See `Meanings`."""
        if node.args.get("table") is None:
            raise self._text.error(
                f"{node.name} was the name of an expression when the view was made, and is a column of {relation.name} "
                "now",
                node,
            )

    def star(self, node: exp.Expr, columns: Sequence[tuple[Relation, int]]) -> None:  # noqa: ARG002  see `Meanings`
        """See `Meanings`."""
        raise self._text.error("which columns * meant when the view was made is not known", node)


def _position(node: exp.Expr) -> int:
    """Where a column is written; -1 if it is not in the text."""
    return int(node.this.meta.get("start", -1))


def _named(name: str, relation: Relation) -> exp.Expr:
    column = exp.Column(this=exp.to_identifier(name, quoted=True))
    _qualify(column, relation)
    return column


def _qualify(node: exp.Expr, relation: Relation) -> None:
    node.set("table", exp.to_identifier(relation.name, quoted=True))
    if relation.database is not None:
        node.set("db", exp.to_identifier(relation.database, quoted=True))
