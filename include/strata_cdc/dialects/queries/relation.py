"""A table or a query in FROM, as DuckDB has it and as the statement names it.
Not here: which names mean its columns (`scope.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.dialects.queries.values import QueryValue
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from strata_cdc.dialects.queries.values import Kind


class Relation(Struct, frozen=True):
    """A table, or a query in FROM, as DuckDB has it: its columns are c0, c1 and so on."""

    alias: str
    """In DuckDB."""
    name: str
    """In the statement."""
    database: str | None
    """None for a query, or a table with another name in the statement."""
    columns: tuple[tuple[str, Kind], ...]
    """Names in the statement."""
    key: frozenset[int] = frozenset()
    """Numbers of the columns that identify a row; empty if none do."""
    visible: frozenset[int] | None = None
    """Numbers of the columns of `*`; None: all."""

    def value(self, number: int) -> QueryValue:
        """A column."""
        name, kind = self.columns[number]
        return QueryValue(f'"{self.alias}"."c{number}"', kind, name=f"{self.name}.{name}")

    def numbers(self, name: str) -> list[int]:
        """The columns of a name; MySQL ignores the case."""
        folded = fold_name(name)
        return [number for number, (own, _) in enumerate(self.columns) if fold_name(own) == folded]
