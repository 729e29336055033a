"""What a reader has requested.
Not here: reading it (`reader.py`), the address (`routes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.model.patterns import matches
from strata_cdc.streams.selection import StreamSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.model.definition import TableName


class Wish(Struct, frozen=True):
    """Which lines of a stream: readers with the same wish get the same bytes."""

    tables: tuple[str, ...] = ()
    """Patterns; none for all."""
    columns: tuple[str, ...] | None = None
    """Names; None for all."""

    def selection(self, *, folded: bool) -> StreamSelection:
        """The same for spans that leave nothing out.

        Args:
            folded: Whether the server takes names of any case for the same.
        """
        columns = None if self.columns is None else frozenset(name.casefold() for name in self.columns)
        return StreamSelection(self._table(folded=folded) if self.tables else None, columns)

    def _table(self, *, folded: bool) -> Callable[[TableName], bool]:
        known: dict[TableName, bool] = {}

        def is_wanted(table: TableName) -> bool:
            is_chosen = known.get(table)
            if is_chosen is None:
                is_chosen = known[table] = matches(table, self.tables, folded=folded)
            return is_chosen

        return is_wanted
