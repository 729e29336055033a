"""Which shapes can be served with the tables as they are at a position of a stream, and as what.
Not here: which columns may make keys (`columns.py`), the live server's tables (`live_tables.py`), telling the cache
(`invalidator.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.cache.columns import kinds_of_shape
from strata_cdc.cache.live_tables import LiveTables, may_cascade
from strata_cdc.schema.history.cascades import unlogged_cascades
from strata_cdc.store.database import OnMissing, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.cache.shapes import Shapes
    from strata_cdc.cache.touched import Toucher
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.events import Ddl
    from strata_cdc.streams.request import StreamedSource
    from strata_cdc.streams.stream import ChangeStream


class Serving:
    """The shapes of a cache, before the tables of its source."""

    def __init__(
        self, source: StreamedSource, shapes: Shapes, on_remark: Callable[[str], None] = lambda _: None
    ) -> None:
        """Takes the source, the shapes, and a function that is called with shapes that cannot be served."""
        self._source, self._shapes, self._on_remark = source, shapes, on_remark
        self._may_cascade: set[str] = set()
        """Tables of statements that were read: the key may be gone when the server is queried."""

    def note(self, event: Ddl) -> None:
        """Stores a statement on tables of the shapes."""
        if may_cascade(event.statement):
            self._may_cascade |= {table.lower() for table in event.tables}

    def look(self, toucher: Toucher, stream: ChangeStream, seq: int | None) -> dict[str, str]:
        """Looks at the tables as the rows of a transaction have them; None: of the last one that was read.

        Returns:
            The word of each shape, '' for those that cannot be served.
        """
        cascades = self._cascades()

        def lookup(table: TableName) -> TableDefinition:
            return stream.definition(table, seq)

        words = {}
        for shape in self._shapes.shapes:
            kinds, why = kinds_of_shape(shape, lookup)
            unlogged = sorted(table for table in shape.tables if table.lower() in cascades)
            if unlogged:
                kinds, why = None, f"foreign keys change rows of {unlogged[0]}, and this server does not log that"
            toucher.kinds[shape.name] = kinds
            words[shape.name] = "" if kinds is None else shape.word(kinds)
            if kinds is None:
                self._on_remark(f"shape {shape.name} is not served: {why}")
        return words

    def _cascades(self) -> set[str]:
        """Tables, in lower case, whose rows foreign keys change without row events."""
        engine = open_store(self._source.store_url, OnMissing.EMPTY)
        try:
            known = {
                str(unlogged_cascade.name).lower() for unlogged_cascade in unlogged_cascades(engine, self._source.name)
            }
        finally:
            engine.dispose()
        live = LiveTables.ask(self._source.address, self._shapes.databases)
        return known if live.logs_cascades else known | live.cascades | self._may_cascade
