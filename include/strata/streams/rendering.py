"""Spans of a stream as events one by one, or as JSON lines, in stream order.
Not here: decoding (`decoding.py`), the text of values (`rows/jsonl.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strata.rows.arrow import ROW_FIELDS
from strata.rows.jsonl import TableLines
from strata.streams.events import Commit, Heartbeat, RowChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from strata.rows.decode import ChangeBatch
    from strata.schema.model.definition import TableDefinition, TableName
    from strata.streams.decoding import Span
    from strata.streams.events import Ddl, Event, TransactionPlace

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = 1 << 62
_encode: Final = msgspec.json.encode
_ORDER: Final = itemgetter(0, 1)


class Rendering:
    """Knows the tables of one stream."""

    def __init__(self) -> None:
        self._tables: dict[tuple[TableName, int | None, int], tuple[TableLines, TableDefinition]] = {}

    def events(self, span: Span) -> Iterator[Event]:
        """The events of a span, in order."""
        found: list[tuple[int, int, Event]] = [(one.place.record.seq, one.number, one) for one in span.ddl]
        for batch in span.batches:
            for seq, row, change in self._changes(batch, span.places):
                found.append((seq, span.places[seq].statements + row + 1, change))
        found += [(place.record.seq, _LAST, Commit(place)) for place in span.commits]
        found.sort(key=_ORDER)
        return map(itemgetter(2), found)

    def lines(self, span: Span) -> Iterator[bytes]:
        """The JSON lines of a span, in order, without line ends."""
        found: list[tuple[int, int, bytes]] = [(one.place.record.seq, one.number, _ddl_line(one)) for one in span.ddl]
        for batch in span.batches:
            for line in self._table(batch).objects(batch.batch):
                place = span.places[line["seq"]]
                step = place.statements + line["row"] + 1
                line["token"] = place.steps.text(step)
                line["committed_at"] = time_text(place.record.committed_at)
                line["source"] = place.before.source
                found.append((line["seq"], step, _encode(line)))
        found += [(place.record.seq, _LAST, _commit_line(place)) for place in span.commits]
        found.sort(key=_ORDER)
        return map(itemgetter(2), found)

    def _table(self, batch: ChangeBatch) -> TableLines:
        key = (batch.table, batch.version_id, id(batch.definition))
        known = self._tables.get(key)
        if known is None:
            # With the definition, so that its id stays its own.
            known = self._tables[key] = (TableLines(batch.table, batch.definition), batch.definition)
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


def _ddl_line(ddl: Ddl) -> bytes:
    place = ddl.place
    return _encode(
        {
            "token": ddl.token,
            "ddl": ddl.statement,
            "tables": list(ddl.tables),
            "version": ddl.version,
            "gtid": place.gtid,
            "committed_at": time_text(place.record.committed_at),
            "source": place.before.source,
        }
    )


def _commit_line(place: TransactionPlace) -> bytes:
    return _encode(
        {
            "token": place.after_text,
            "commit": True,
            "gtid": place.gtid,
            "committed_at": time_text(place.record.committed_at),
            "source": place.before.source,
        }
    )


def heartbeat_line(heartbeat: Heartbeat) -> bytes:
    """The line of a heartbeat."""
    return _encode({"token": heartbeat.token, "heartbeat": True})


@lru_cache(1 << 10)
def time_text(micros: int) -> str:
    """A commit time as `2026-11-21T03:30:00.000000Z`."""
    return (_EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
