"""Spans of a stream as events one by one, in stream order.
Not here: decoding (`decoding.py`), lines (`writing.py`)."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from strata.rows.arrow import ROW_FIELDS
from strata.rows.jsonl import TableLines
from strata.streams.events import Commit, RowChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from strata.rows.decode import ChangeBatch
    from strata.schema.model.definition import TableDefinition, TableName
    from strata.streams.decoding import StreamPart
    from strata.streams.events import Event, TransactionPlace

_LAST: Final = 1 << 62
_ORDER: Final = itemgetter(0, 1)


class Rendering:
    """Knows the tables of one stream."""

    def __init__(self) -> None:
        self._tables: dict[tuple[TableName, int | None, int], tuple[TableLines, TableDefinition]] = {}

    def events(self, span: StreamPart) -> Iterator[Event]:
        """The events of a span, in order."""
        found: list[tuple[int, int, Event]] = [(one.place.record.seq, one.number, one) for one in span.ddl]
        for batch in span.batches:
            for seq, row, change in self._changes(batch, span.places):
                found.append((seq, span.places[seq].statements + row + 1, change))
        found += [(place.record.seq, _LAST, Commit(place)) for place in span.commits]
        found.sort(key=_ORDER)
        return map(itemgetter(2), found)

    def _table(self, batch: ChangeBatch) -> TableLines:
        known = self._tables.get(batch.kind)
        if known is None:
            # With the definition, so that its id stays its own.
            known = self._tables[batch.kind] = (TableLines(batch.table, batch.definition), batch.definition)
        return known[0]

    def _changes(
        self, batch: ChangeBatch, places: Mapping[int, TransactionPlace]
    ) -> Iterator[tuple[int, int, RowChange]]:
        facts = dict(zip((field.name for field in ROW_FIELDS), batch.batch.columns[-len(ROW_FIELDS) :], strict=True))
        values = {column.name: _as_python for column in batch.definition.columns}
        befores, afters, diffs = self._table(batch).images(batch.batch, values)
        columns = (facts[name].to_pylist() for name in ("_seq", "_row", "_op"))
        for seq, row, op, before, after, diff in zip(*columns, befores, afters, diffs, strict=True):
            yield (
                seq,
                row,
                RowChange(
                    places[seq],
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


def _as_python(column: pa.Array) -> list[Any]:
    return list(column.to_pylist())
