"""A user's condition on the rows of one table, read once and evaluated anywhere.
Not here: the differences between engines that are handled or refused (`__init__.py`)."""

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
        text: The condition, as it would come after WHERE.
        definition: The version whose columns it names.
        table: Name of the table, for messages and for column names that include it.

    Raises:
        ConditionError: The text is not a condition, or would not mean the same elsewhere; the message has the position
            in the text.
    """
    return Condition(text, read_condition(text, definition, table))


class Condition(Struct, frozen=True):
    """A condition that means the same in all engines."""

    text: str
    """The condition as it was written."""
    node: Node

    @property
    def columns(self) -> frozenset[str]:
        """The names of its columns, as the table spells them."""
        return columns_of(self.node)

    def spark(self, names: Mapping[str, str] | None = None) -> str:
        """Returns it as SQL of Spark; `names` has the names of columns that have other names there."""
        return self._sql(Dialect.SPARK, names or {})

    def duckdb(self, names: Mapping[str, str] | None = None) -> str:
        """Returns it as SQL of DuckDB; `names` as for `spark`."""
        return self._sql(Dialect.DUCKDB, names or {})

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Evaluates it on Arrow columns, by name in MySQL's table, in the types of a change table. Returns a boolean or
        NULL for each row.

        Raises:
            Usage: A row has a value for which MySQL's result is not known here.
        """
        from strata_cdc.dialects.conditions.arrow import evaluate  # noqa: PLC0415  Arrow is loaded only when it is used

        return evaluate(self.node, columns)

    def _sql(self, dialect: Dialect, names: Mapping[str, str]) -> str:
        return SqlWriter(dialect, lambda name: exp.column(exp.to_identifier(names.get(name, name), quoted=True))).text(
            self.node
        )
