"""A user's condition on the rows of one table, read once and evaluated anywhere.
Not here: the differences that are bridged or refused (`__init__.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.conditions.read import check_condition, read_condition
from strata_cdc.dialects.conditions.sql import SqlWriter
from strata_cdc.dialects.conditions.terms import Node, columns_of
from strata_cdc.dialects.engines import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from strata_cdc.schema.model.definition import TableDefinition


__all__ = ["Condition", "check_condition", "parse"]


def parse(text: str, definition: TableDefinition, table: str = "") -> Condition:
    """Reads a condition in MySQL's SQL.

    Args:
        text: The condition, as it would stand behind WHERE.
        definition: The version whose columns it names.
        table: The table's name, for messages and for columns that are named with it.

    Raises:
        ConditionError: It is none, or would not mean the same elsewhere; says where in the text.
    """
    return Condition(text, read_condition(text, definition, table))


class Condition(Struct, frozen=True):
    """A condition that means the same everywhere."""

    text: str
    """As it was written."""
    node: Node

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns that it names, as the table spells them."""
        return columns_of(self.node)

    def spark(self, names: Mapping[str, str] | None = None) -> str:
        """As SQL of Spark; `names` has what columns are called there, where they are called otherwise."""
        return self._sql(Dialect.SPARK, names or {})

    def duckdb(self, names: Mapping[str, str] | None = None) -> str:
        """As SQL of DuckDB."""
        return self._sql(Dialect.DUCKDB, names or {})

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Over Arrow's columns, by name in MySQL's table, in the types of a change table: a boolean or NULL a row.

        Raises:
            Usage: A row has a value of which nobody here knows what MySQL would say.
        """
        from strata_cdc.dialects.conditions.arrow import evaluate  # noqa: PLC0415  Arrow is loaded where it is used

        return evaluate(self.node, columns)

    def _sql(self, dialect: Dialect, names: Mapping[str, str]) -> str:
        return SqlWriter(dialect, lambda name: exp.column(exp.to_identifier(names.get(name, name), quoted=True))).text(
            self.node
        )
