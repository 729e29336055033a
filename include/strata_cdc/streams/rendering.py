"""Yields spans of a stream as single events, in stream order.
Not here: decoding (`decoding.py`), lines (`writing.py`)."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.changes.jsonl import TableLines
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.streams.events import Commit, RowChange, UnreadableChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from strata_cdc.changes.port import ChangeBatch
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import Event, StreamTransaction
    from strata_cdc.streams.unreadable import UnreadableRows

_ORDER: Final = itemgetter(0, 1)


class Rendering:
    """Makes the events of one stream, and keeps what they need of each table."""

    def __init__(self) -> None:
        self._tables: dict[tuple[TableName, int | None, int], TableLines] = {}

    def events(self, span: StreamBatch) -> Iterator[Event]:
        """Returns the events of a span, in order."""
        events: list[tuple[int, int, Event]] = [(ddl.transaction.record.seq, ddl.number, ddl) for ddl in span.ddl]
        for batch in span.batches:
            for seq, row, change in self._changes(batch, span.transactions):
                events.append((seq, span.transactions[seq].statements + row + 1, change))
        unreadable = (row for rows in span.unreadable for row in self._unreadable(rows, span.transactions))
        events += [(row.seq, row.transaction.statements + row.row + 1, row) for row in unreadable]
        events += [(transaction.record.seq, AFTER_ALL, Commit(transaction)) for transaction in span.commits]
        events.sort(key=_ORDER)
        return map(itemgetter(2), events)

    def _table(self, batch: ChangeBatch | UnreadableRows) -> TableLines:
        known = self._tables.get(batch.kind)
        if known is None:
            known = self._tables[batch.kind] = TableLines(batch.table, batch.definition)
        return known

    def _changes(
        self, batch: ChangeBatch, transactions: Mapping[int, StreamTransaction]
    ) -> Iterator[tuple[int, int, RowChange]]:
        columns = ChangeColumns(batch.batch)
        facts = (columns.fact(name).to_pylist() for name in ("_seq", "_row", "_op"))
        images = self._table(batch).images(batch.batch, _as_python(batch.definition))
        for seq, row, op, before, after, diff in zip(*facts, *images, strict=True):
            yield (
                seq,
                row,
                RowChange(
                    transactions[seq],
                    batch.table.database,
                    batch.table.table,
                    op,
                    before,
                    after,
                    row,
                    batch.version_id or 0,
                    diff or None,
                ),
            )

    def _unreadable(
        self, rows: UnreadableRows, transactions: Mapping[int, StreamTransaction]
    ) -> Iterator[UnreadableChange]:
        table = rows.table
        for row in rows.rows(self._table(rows), _as_python(rows.definition)):
            yield UnreadableChange(transactions[row.seq], table.database, table.table, row, rows.version_id or 0)


def _as_python(definition: TableDefinition) -> dict[str, Callable[[pa.Array], list[Any]]]:
    """How to convert the values of each column: as Arrow returns them."""
    return {column.name: pa.Array.to_pylist for column in definition.columns}
