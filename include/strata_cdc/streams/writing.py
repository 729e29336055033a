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
from strata_cdc.streams.lines import ImageTexts, LineColumn, Lines, composed, in_digits, in_few_digits, joined
from strata_cdc.streams.source_tokens import SourceTokens
from strata_cdc.streams.together import put_together
from strata_cdc.streams.token_texts import tokens_inside
from strata_cdc.streams.transaction_texts import TransactionTexts, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import ChangeBatch
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import Ddl, StreamTransaction
    from strata_cdc.streams.source_tokens import SpanTokens
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


class Writing:
    """Makes the lines of one stream, and keeps what they need of each table."""

    def __init__(self) -> None:
        """Begins without tables."""
        self._tables: dict[tuple[TableName, int | None, int], tuple[TableLines, ImageTexts, TableDefinition]] = {}

    def chunks(self, span: StreamBatch) -> Iterator[bytes]:
        """Yields the lines of a span, several at a time."""
        span = put_together(span)
        return joined(self.lines_of(span, SourceTokens(span.transactions)))

    def lines(self, span: StreamBatch) -> bytes:
        """Returns all lines of a span."""
        return b"".join(self.chunks(span))

    def messages(self, span: StreamBatch) -> Messages:
        """Returns all lines of a span as server-sent events."""
        span = put_together(span)
        groups = self.lines_of(span, SourceTokens(span.transactions), _MESSAGES)
        if not groups:
            return NO_MESSAGES
        seq, step = max(
            (int(seq), int(group.steps[group.seqs == seq].max())) for group in groups for seq in [group.seqs.max()]
        )
        transaction = span.transactions[seq]
        last = transaction.after_text if step == _LAST else transaction.steps.text(step)
        return Messages(b"".join(joined(groups)), last, seq)

    def lines_of(self, span: StreamBatch, tokens: SpanTokens, framing: _Framing = _LINES) -> list[Lines]:
        """Returns the lines of a span, to be joined.

        Args:
            span: The span.
            tokens: The tokens of its transactions.
            framing: The text around each line.
        """
        end = _end(span) + framing.end if span.transactions else framing.end
        parts = [_ddl(span, framing)] if span.ddl else []
        for batch in span.batches:
            values, images = self._table(batch)
            columns = images.pieces(batch.batch, b',"token":"')
            if columns is None:
                # Images that lack columns, or have values that their column types cannot express.
                parts.append(_one_by_one(values.objects(batch.batch), span, framing))
            else:
                parts.append(_rows(batch, columns, tokens, framing, end))
        for unreadable in span.unreadable:
            rows = unreadable.rows(self._table(unreadable)[0])
            lines = [_unreadable_line(unreadable.table, row, span.transactions) for row in rows]
            parts.append(_one_by_one(lines, span, framing))
        if len(span.ended):
            parts.append(_commits(span.ended, tokens, framing, end))
        return parts

    def _table(self, batch: ChangeBatch | UnreadableRows) -> tuple[TableLines, ImageTexts]:
        known = self._tables.get(batch.kind)
        if known is None:
            table, definition = batch.table, batch.definition
            # The entry keeps the definition alive, so that no other object gets the same `id`.
            known = (TableLines(table, definition), ImageTexts(table, definition), definition)
            self._tables[batch.kind] = known
        return known[:2]


def _ddl(span: StreamBatch, framing: _Framing) -> Lines:
    lines = Texts.of([framing.whole(ddl.token, _ddl_line(ddl)) for ddl in span.ddl])
    seqs, numbers = zip(*((ddl.transaction.record.seq, ddl.number) for ddl in span.ddl), strict=True)
    return Lines(np.array(seqs, np.int64), np.array(numbers, np.int64), [LineColumn(lines)])


def _rows(batch: ChangeBatch, images: list[LineColumn], tokens: SpanTokens, framing: _Framing, end: bytes) -> Lines:
    """The lines of rows of one table.

    Args:
        batch: The rows.
        images: The columns of their images, and of what comes after the images.
        tokens: The tokens of the span.
        framing: The text around each line.
        end: The end of all lines.
    """
    columns = dict(zip((field.name for field in ROW_FIELDS), batch.batch.columns[-len(ROW_FIELDS) :], strict=True))
    row_seqs, rows = (np.asarray(columns[name].to_numpy(), np.int64) for name in ("_seq", "_row"))
    begins = np.flatnonzero(np.diff(row_seqs, prepend=-1))
    seqs, chosen = row_seqs[begins], np.repeat(np.arange(len(begins)), np.diff(begins, append=len(row_seqs)))
    facts = TransactionTexts(tokens.own, seqs)
    steps = rows + 1 + facts.statements()[chosen]
    token = tokens_inside(tokens.inside(seqs), chosen, steps)
    opened = [
        LineColumn.same(b'{"gtid":'),
        LineColumn(*facts.gtids()),
        LineColumn.same(b',"seq":'),
        in_digits(seqs),
    ]
    closing = [*_after_token(tokens.more_keys(seqs)), *_facts(facts, end)]
    return Lines(
        row_seqs,
        steps,
        [
            *framing.front(*token),
            LineColumn(composed(opened, len(seqs)), chosen),
            *in_few_digits(rows, b',"row":'),
            *images,
            *token,
            LineColumn(composed(closing, len(seqs)), chosen),
        ],
    )


def _commits(seqs: Ints, tokens: SpanTokens, framing: _Framing, end: bytes) -> Lines:
    token, facts = LineColumn(tokens.after(seqs)), TransactionTexts(tokens.own, seqs)
    columns = [
        *framing.front(token),
        LineColumn.same(b'{"token":"'),
        token,
        *_after_token(tokens.more_keys(seqs)),
        LineColumn.same(b',"commit":true,"gtid":'),
        LineColumn(*facts.gtids()),
        *_facts(facts, end),
    ]
    return Lines(seqs, np.full(len(seqs), _LAST), columns)


def _after_token(more_keys: Texts | None) -> list[LineColumn]:
    return [LineColumn.same(b'"'), *([] if more_keys is None else [LineColumn(more_keys)])]


def _facts(facts: TransactionTexts, end: bytes) -> list[LineColumn]:
    """The last columns of the lines of some transactions."""
    return [LineColumn.same(b',"committed_at":"'), LineColumn(*facts.times()), LineColumn.same(end)]


def _end(span: StreamBatch) -> bytes:
    """The end of all lines of a span: they are all of the same source."""
    return b'","source":%b}' % _source(next(iter(span.transactions.values())).before.source)


def _unreadable_line(
    table: TableName, row: UnreadableRow, transactions: Mapping[int, StreamTransaction]
) -> dict[str, Any]:
    """The line for a row that cannot be read. Of the keys of a normal line, it has only those of the row's position."""
    return {
        "gtid": transactions[row.seq].gtid,
        "seq": row.seq,
        "row": row.row,
        "database": table.database,
        "table": table.table,
        "unreadable": row.shown(),
    }


def _one_by_one(objects: Iterable[dict[str, Any]], span: StreamBatch, framing: _Framing) -> Lines:
    """Lines of rows that are made one by one, without the end that all lines have."""
    seqs, steps, lines = [], [], []
    for line in objects:
        transaction = span.transactions[line["seq"]]
        step = transaction.statements + line["row"] + 1
        line["token"] = token = transaction.steps.text(step)
        line["committed_at"] = time_text(transaction.record.committed_at)
        line["source"] = transaction.before.source
        line.update(transaction.shown)
        seqs.append(line["seq"])
        steps.append(step)
        lines.append(framing.whole(token, _encode(line)))
    return Lines(np.array(seqs, np.int64), np.array(steps, np.int64), [LineColumn(Texts.of(lines))])


@lru_cache(64)
def _source(name: str) -> bytes:
    return _encode(name)


def _ddl_line(ddl: Ddl) -> bytes:
    transaction = ddl.transaction
    return _encode(
        {
            "token": ddl.token,
            "ddl": ddl.statement,
            "tables": list(ddl.tables),
            "version": ddl.version,
            "gtid": transaction.gtid,
            "committed_at": time_text(transaction.record.committed_at),
            "source": transaction.before.source,
            **transaction.shown,
        }
    )


def heartbeat_line(token: str) -> bytes:
    """Returns the line of a heartbeat."""
    return _encode({"token": token, "heartbeat": True})
