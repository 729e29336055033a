"""What the newest comparison of each table with its server came to: one row for each table.
Not here: comparing (`quality/reconcile/`)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict

from strata_cdc.store.database import Ledger, insert_if_absent, writing
from strata_cdc.store.tables import table_comparison


class TableComparison(Struct, frozen=True):
    """The newest comparison of one table."""

    source: str
    database_name: str
    table_name: str
    compared_at: int
    """Microseconds UTC."""
    outcome: str
    """`match`, `mismatch`, or `inconclusive`: nothing could be compared."""
    compared: int
    """Rows that were compared."""
    different: int
    """Rows that differ; 0 if it is only the definition that differs."""
    is_sample: bool
    """Whether some of the rows were compared and not all."""

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database_name}.{self.table_name}"


class ComparisonLedger(Ledger):
    """The newest comparison of each table of a source."""

    def put(self, comparison: TableComparison) -> None:
        """Replaces the table's former comparison."""
        columns = table_comparison.c
        of_table = (
            (columns.source == comparison.source)
            & (columns.database_name == comparison.database_name)
            & (columns.table_name == comparison.table_name)
        )
        # Two comparisons of a table may end at the same time, and neither is to fail for that.
        with writing(self._engine) as connection:
            connection.execute(insert_if_absent(table_comparison).values(asdict(comparison)))
            connection.execute(table_comparison.update().where(of_table).values(asdict(comparison)))

    def all(self, source: str) -> list[TableComparison]:
        """The comparisons of all tables, by name."""
        columns = table_comparison.c
        query = sa.select(*columns).where(columns.source == source).order_by(columns.database_name, columns.table_name)
        return [_from_row(row) for row in self._rows(query)]


def _from_row(row: sa.Row[Any]) -> TableComparison:
    values: dict[str, Any] = dict(row._mapping)  # noqa: SLF001  SQLAlchemy's public name for it
    return TableComparison(**{**values, "is_sample": bool(values["is_sample"])})
