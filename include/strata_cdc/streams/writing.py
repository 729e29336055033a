"""Writes spans of a stream as JSON lines, or as server-sent events, in stream order.
Not here: putting the bytes together (`lines.py`), events as Python values (`rendering.py`)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from strata_cdc.changes.arrow import ROW_FIELDS
from strata_cdc.changes.jsonl import TableLines
from strata_cdc.changes.texts import Texts
from strata_cdc.position.token_seal import step_numbers
from strata_cdc.streams.lines import ImageTexts, LineColumn, Lines, composed, in_digits, in_few_digits, joined
from strata_cdc.streams.together import put_together
from strata_cdc.streams.transaction_texts import EndTexts, RowTexts, TransactionTexts, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import ChangeBatch
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import Ddl, TransactionPlace
    from strata_cdc.streams.unreadable import UnreadableRow, UnreadableRows

_LAST: Final = 1 << 62
_encode: Final = msgspec.json.encode


class Messages(Struct, frozen=True):
    """Server-sent events of one span."""

    data: bytes
    last: str
    """Token of the last line; empty if there is no line."""
    last_seq: int
    """Ordinal of the transaction of the last line."""


NO_MESSAGES: Final = Messages(b"", "", 0)


def message(token: str, line: bytes) -> bytes:
    """A line as a server-sent event (HTML Living Standard, 9.2.6), whose `id` is its token; JSON has no line ends."""
    return b"id: %b\ndata: %b\n\n" % (token.encode(), line)


class _Framing(Struct, frozen=True):
    """The text before and after each line."""

    whole: Callable[[str, bytes], bytes]
    """Makes the complete text of a line from its token and the line itself."""
    id: bytes
    """The text before the token; empty if no token comes before the line."""
    end: bytes

    def front(self, *token: LineColumn) -> list[LineColumn]:
        """The columns that come before a line."""
        return [LineColumn.same(self.id), *token, LineColumn.same(b"\ndata: ")] if self.id else []


_LINES: Final = _Framing(lambda _, line: line + b"\n", b"", b"\n")
_MESSAGES: Final = _Framing(message, b"id: ", b"\n\n")


class LineRows(Struct, frozen=True, eq=False):
    """Rows of one table whose lines are made together."""

    seqs: Ints
    rows: Ints
    """Ordinals of the rows in their transactions."""
    pieces: list[LineColumn]
    """The columns of the rows' images, and of what comes after the images."""
    transactions: Ints
    """Ordinals of the rows' transactions, each once."""
    chosen: Ints
    """For each row, the index of its transaction in `transactions`."""


class LinePlan(Struct, frozen=True, eq=False):
    """The lines that a span has."""

    span: StreamBatch
    rows: list[LineRows]
    others: list[Iterable[dict[str, Any]]]
    """Lines of rows that are made one by one, without the end that all lines have."""


class SpanTexts(Struct, frozen=True, eq=False):
    """What the lines of a span state about their transactions."""

    rows: list[RowTexts]
    """One for each entry in `rows` of the span's `LinePlan`."""
    ends: EndTexts | None
    """Of the transactions that end in the span; None if no transaction ends in it."""


class Writing:
    """Makes the lines of one stream, and keeps what they need of each table."""

    def __init__(self) -> None:
        """Begins without tables."""
        self._tables: dict[tuple[TableName, int | None, int], tuple[TableLines, ImageTexts, TableDefinition]] = {}

    def chunks(self, span: StreamBatch) -> Iterator[bytes]:
        """Yields the lines of a span, several at a time."""
        lines = self._of_source(put_together(span), _LINES)
        return joined(lines)

    def lines(self, span: StreamBatch) -> bytes:
        """Returns all lines of a span."""
        return b"".join(self.chunks(span))

    def messages(self, span: StreamBatch) -> Messages:
        """Returns all lines of a span as server-sent events."""
        groups = self._of_source(put_together(span), _MESSAGES)
        if not groups:
            return NO_MESSAGES
        seq, step = max((int(seq), int(one.steps[one.seqs == seq].max())) for one in groups for seq in [one.seqs.max()])
        place = span.places[seq]
        last = place.after_text if step == _LAST else place.steps.text(step)
        return Messages(b"".join(joined(groups)), last, seq)

    def _of_source(self, span: StreamBatch, framing: _Framing) -> list[Lines]:
        plan = self.plan(span)
        rows = [TransactionTexts(span.places, one.transactions).of_rows() for one in plan.rows]
        ends = TransactionTexts(span.places, span.ended).of_ends() if len(span.ended) else None
        return planned_lines(plan, SpanTexts(rows, ends), framing)

    def plan(self, span: StreamBatch) -> LinePlan:
        """Plans the lines of a span, for `planned_lines`. The plan shows which transactions the lines name."""
        plan = LinePlan(span, [], [])
        for batch in span.batches:
            values, images = self._table(batch)
            pieces = images.pieces(batch.batch, b',"token":"')
            if pieces is None:
                # Images that lack columns, or have values that their column types cannot express.
                plan.others.append(values.objects(batch.batch))
            else:
                plan.rows.append(_line_rows(batch, pieces))
        for rows in span.unreadable:
            found = rows.rows(self._table(rows)[0])
            plan.others.append([_unreadable_line(rows.table, one, span.places) for one in found])
        return plan

    def _table(self, batch: ChangeBatch | UnreadableRows) -> tuple[TableLines, ImageTexts]:
        known = self._tables.get(batch.kind)
        if known is None:
            table, definition = batch.table, batch.definition
            # The entry keeps the definition alive, so that no other object gets the same `id`.
            known = (TableLines(table, definition), ImageTexts(table, definition), definition)
            self._tables[batch.kind] = known
        return known[:2]


def _line_rows(batch: ChangeBatch, pieces: list[LineColumn]) -> LineRows:
    columns = dict(zip((field.name for field in ROW_FIELDS), batch.batch.columns[-len(ROW_FIELDS) :], strict=True))
    seqs, rows = (np.asarray(columns[name].to_numpy(), np.int64) for name in ("_seq", "_row"))
    begins = np.flatnonzero(np.diff(seqs, prepend=-1))
    chosen = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(seqs)))
    return LineRows(seqs, rows, pieces, seqs[begins], chosen)


def planned_lines(plan: LinePlan, texts: SpanTexts, framing: _Framing = _LINES) -> list[Lines]:
    """Returns the lines of a span, to be joined.

    Args:
        plan: Which lines there are.
        texts: What the lines state about their transactions.
        framing: The text around each line.
    """
    span, found = plan.span, list[Lines]()
    if span.ddl:
        lines = Texts.of([framing.whole(one.token, _ddl_line(one)) for one in span.ddl])
        seqs, numbers = zip(*((one.place.record.seq, one.number) for one in span.ddl), strict=True)
        found.append(Lines(np.array(seqs, np.int64), np.array(numbers, np.int64), [LineColumn(lines)]))
    end = _end(span) + framing.end if span.places else framing.end
    found += [_rows(one, said, framing, end) for one, said in zip(plan.rows, texts.rows, strict=True)]
    found += [_one_by_one(objects, span, framing) for objects in plan.others]
    if texts.ends is not None:
        found.append(_commits(span.ended, texts.ends, framing, end))
    return found


def _rows(rows: LineRows, texts: RowTexts, framing: _Framing, end: bytes) -> Lines:
    steps = rows.rows + 1 + texts.statements[rows.chosen]
    token = [LineColumn(texts.heads, rows.chosen), in_digits(step_numbers(texts.crcs[rows.chosen], steps))]
    count = len(rows.transactions)
    front = [
        LineColumn.same(b'{"gtid":'),
        LineColumn(*texts.gtids),
        LineColumn.same(b',"seq":'),
        in_digits(rows.transactions),
    ]
    behind = [_ended(texts.ends), *_facts(texts.times, end)]
    return Lines(
        rows.seqs,
        steps,
        [
            *framing.front(*token),
            LineColumn(composed(front, count), rows.chosen),
            *in_few_digits(rows.rows, b',"row":'),
            *rows.pieces,
            *token,
            LineColumn(composed(behind, count), rows.chosen),
        ],
    )


def _commits(seqs: Ints, texts: EndTexts, framing: _Framing, end: bytes) -> Lines:
    token = LineColumn(texts.tokens)
    pieces = [
        *framing.front(token),
        LineColumn.same(b'{"token":"'),
        token,
        _ended(texts.ends),
        LineColumn.same(b',"commit":true,"gtid":'),
        LineColumn(*texts.gtids),
        *_facts(texts.times, end),
    ]
    return Lines(seqs, np.full(len(seqs), _LAST), pieces)


def _ended(texts: Texts | None) -> LineColumn:
    return LineColumn.same(b'"') if texts is None else LineColumn(texts)


def _facts(times: tuple[Texts, Ints], end: bytes) -> list[LineColumn]:
    """The last columns of the lines of some transactions."""
    return [LineColumn.same(b',"committed_at":"'), LineColumn(*times), LineColumn.same(end)]


def _end(span: StreamBatch) -> bytes:
    """The end of all lines of a span: they are all of the same source."""
    return b'","source":%b}' % _source(next(iter(span.places.values())).before.source)


def _unreadable_line(table: TableName, found: UnreadableRow, places: Mapping[int, TransactionPlace]) -> dict[str, Any]:
    """The line for a row that cannot be read. Of the keys of a normal line, it has only those of the row's position."""
    seen = {"op": found.op, "before": found.before, "after": found.after}
    if found.json_diffs:
        seen["json_diffs"] = found.json_diffs
    return {
        "gtid": places[found.seq].gtid,
        "seq": found.seq,
        "row": found.row,
        "database": table.database,
        "table": table.table,
        "unreadable": {
            "values": [value.shown() for value in found.values],
            **seen,
            "file": found.file,
            "offset": found.offset,
        },
    }


def _one_by_one(objects: Iterable[dict[str, Any]], span: StreamBatch, framing: _Framing) -> Lines:
    """Lines of rows that are made one by one, without the end that all lines have."""
    seqs, steps, lines = [], [], []
    for line in objects:
        place = span.places[line["seq"]]
        step = place.statements + line["row"] + 1
        line["token"] = token = place.steps.text(step)
        line["committed_at"] = time_text(place.record.committed_at)
        line["source"] = place.before.source
        line.update(place.shown)
        seqs.append(line["seq"])
        steps.append(step)
        lines.append(framing.whole(token, _encode(line)))
    return Lines(np.array(seqs, np.int64), np.array(steps, np.int64), [LineColumn(Texts.of(lines))])


@lru_cache(64)
def _source(name: str) -> bytes:
    return _encode(name)


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
            **place.shown,
        }
    )


def heartbeat_line(token: str) -> bytes:
    """Returns the line of a heartbeat."""
    return _encode({"token": token, "heartbeat": True})
