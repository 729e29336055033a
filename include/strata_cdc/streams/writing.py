"""Writes spans of a stream as JSON lines, or as server-sent events, in stream order.
Not here: putting the bytes together (`changes/lines.py`), events as Python values (`rendering.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from strata_cdc.changes.image_texts import ImageTexts
from strata_cdc.changes.jsonl import TableLines
from strata_cdc.changes.lines import ComposedTexts, ConstantPart, LineColumn, Lines, in_few_digits, joined
from strata_cdc.changes.texts import Digits, ListedTexts
from strata_cdc.changes.token_texts import TokenEnds
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.streams.decoding import row_ordinals, row_seqs
from strata_cdc.streams.source_tokens import source_tokens
from strata_cdc.streams.together import put_together
from strata_cdc.streams.transaction_texts import texts_of_transactions, time_text
from strata_cdc.streams.transactions import ordinals_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.lines import LinePart
    from strata_cdc.changes.port import ChangeBatch
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import Ddl, StreamTransaction
    from strata_cdc.streams.transaction_texts import TransactionTexts
    from strata_cdc.streams.unreadable import UnreadableRow, UnreadableRows

_ESCAPES: Final = {separator.encode(): b"\\u%04x" % ord(separator) for separator in ("\x85", "\u2028", "\u2029")}
_SEPARATORS: Final = re.compile(b"|".join(_ESCAPES))
_encode: Final = msgspec.json.encode


class Messages(Struct, frozen=True):
    """Server-sent events of one span."""

    data: bytes
    last: str
    """Token of the last line; empty if there is no line."""
    last_seq: int
    """Ordinal of the transaction of the last line."""


NO_MESSAGES: Final = Messages(b"", "", 0)


def _unbroken(lines: bytes) -> bytes:
    """Escapes what Python's `str.splitlines()`, and with it httpx's `iter_lines`, takes for the end of a line. In JSON
    it stands in texts only."""
    return lines if lines.isascii() else _SEPARATORS.sub(lambda match: _ESCAPES[match[0]], lines)


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

    def front(self, *token: LineColumn) -> list[LinePart]:
        """The columns that come before a line."""
        return [ConstantPart(self.id), *token, ConstantPart(b"\ndata: ")] if self.id else []


_LINES: Final = _Framing(lambda _, line: line + b"\n", b"", b"\n")
_MESSAGES: Final = _Framing(message, b"id: ", b"\n\n")


class _RowFrame(Struct, frozen=True, eq=False):
    """What is before and after the images in the lines of rows: one text for each transaction."""

    opening: ComposedTexts
    closing: ComposedTexts


class Writing:
    """Makes the lines of one stream, and keeps what they need of each table."""

    def __init__(self) -> None:
        """Begins without tables."""
        self._tables: dict[tuple[TableName, int | None, int], tuple[TableLines, ImageTexts]] = {}

    def chunks(self, span: StreamBatch) -> Iterator[bytes]:
        """Yields the lines of a span, several at a time."""
        span = put_together(span)
        texts = _texts_of(span)
        lines = self.lines_of(span, texts)
        return joined(lines)

    def lines(self, span: StreamBatch) -> bytes:
        """Returns all lines of a span."""
        return b"".join(self.chunks(span))

    def messages(self, span: StreamBatch) -> Messages:
        """Returns all lines of a span as server-sent events, none of which any client takes for several."""
        span = put_together(span)
        texts = _texts_of(span)
        groups = self.lines_of(span, texts, _MESSAGES)
        if not groups:
            return NO_MESSAGES
        seq, step = max(
            (int(seq), int(group.steps[group.seqs == seq].max())) for group in groups for seq in [group.seqs.max()]
        )
        transaction = span.transactions[seq]
        last = transaction.after_text if step == AFTER_ALL else transaction.steps.text(step)
        return Messages(_unbroken(b"".join(joined(groups))), last, seq)

    def lines_of(self, span: StreamBatch, texts: TransactionTexts, framing: _Framing = _LINES) -> list[Lines]:
        """Returns the lines of a span, to be joined.

        Args:
            span: The span.
            texts: The texts of its transactions.
            framing: The text around each line.
        """
        end = b'","source":%b}' % _encode(texts.source) + framing.end
        parts = [_ddl(span, framing)] if span.ddl else []
        if len(span.ended):
            parts.append(_commits(span.ended, texts, framing, end))
        for unreadable in span.unreadable:
            rows = unreadable.rows(self._table(unreadable)[0])
            lines = [_unreadable_line(unreadable.table, row, span.transactions) for row in rows]
            parts.append(_one_by_one(lines, span, framing))
        frame = _row_frame(texts, end) if span.batches else None
        for batch in span.batches:
            values, images = self._table(batch)
            columns = images.columns(batch.batch, b',"token":"')
            if columns is None or frame is None:
                # Images that lack columns, or have values that their column types cannot express.
                parts.append(_one_by_one(values.objects(batch.batch), span, framing))
            else:
                parts.append(_rows(batch, columns, texts, frame, framing))
        return parts

    def _table(self, batch: ChangeBatch | UnreadableRows) -> tuple[TableLines, ImageTexts]:
        known = self._tables.get(batch.kind)
        if known is None:
            table, definition = batch.table, batch.definition
            known = self._tables[batch.kind] = (TableLines(table, definition), ImageTexts(table, definition))
        return known


def _texts_of(span: StreamBatch) -> TransactionTexts:
    """The texts of the transactions of a source's own span."""
    seqs = span.seqs
    tokens = source_tokens(span.transactions, seqs)
    return texts_of_transactions(span.transactions, seqs, tokens)


def _ddl(span: StreamBatch, framing: _Framing) -> Lines:
    lines = ListedTexts([framing.whole(ddl.token, _ddl_line(ddl)) for ddl in span.ddl])
    seqs, numbers = zip(*((ddl.transaction.record.seq, ddl.number) for ddl in span.ddl), strict=True)
    return Lines(np.array(seqs, np.int64), np.array(numbers, np.int64), [LineColumn(lines)])


def _row_frame(texts: TransactionTexts, end: bytes) -> _RowFrame:
    count, more_keys = len(texts.seqs), texts.tokens.more_keys
    opening: list[LinePart] = [
        ConstantPart(b'{"gtid":'),
        *texts.gtids,
        ConstantPart(b',"seq":'),
        LineColumn(Digits(texts.seqs)),
    ]
    closing: list[LinePart] = [
        ConstantPart(b'"'),
        *([] if more_keys is None else [LineColumn(more_keys)]),
        ConstantPart(b',"committed_at":"'),
        LineColumn(texts.times),
        ConstantPart(end),
    ]
    return _RowFrame(ComposedTexts(opening, count), ComposedTexts(closing, count))


def _rows(
    batch: ChangeBatch, images: list[LineColumn], texts: TransactionTexts, frame: _RowFrame, framing: _Framing
) -> Lines:
    """The lines of rows of one table.

    Args:
        batch: The rows.
        images: The columns of their images, and of what comes after the images.
        texts: The texts of the span's transactions.
        frame: What is before and after the images.
        framing: The text around each line.
    """
    seqs, rows = row_seqs(batch.batch), row_ordinals(batch.batch)
    begins = np.flatnonzero(np.diff(seqs, prepend=-1))
    chosen = np.repeat(ordinals_in(texts.seqs, seqs[begins]), np.diff(begins, append=len(seqs)))
    steps = rows + 1 + texts.statements[chosen]
    inside = texts.tokens.inside
    token = [LineColumn(inside, chosen), LineColumn(TokenEnds(inside, chosen, steps))]
    columns = [
        *framing.front(*token),
        LineColumn(frame.opening, chosen),
        *in_few_digits(rows, b',"row":'),
        *images,
        *token,
        LineColumn(frame.closing, chosen),
    ]
    return Lines(seqs, steps, columns)


def _commits(seqs: Ints, texts: TransactionTexts, framing: _Framing, end: bytes) -> Lines:
    chosen, more_keys = ordinals_in(texts.seqs, seqs), texts.tokens.more_keys
    token = LineColumn(texts.tokens.after, chosen)
    columns = [
        *framing.front(token),
        ConstantPart(b'{"token":"'),
        token,
        ConstantPart(b'"'),
        *([] if more_keys is None else [LineColumn(more_keys, chosen)]),
        ConstantPart(b',"commit":true,"gtid":'),
        *texts.gtids_of(chosen),
        ConstantPart(b',"committed_at":"'),
        LineColumn(texts.times, chosen),
        ConstantPart(end),
    ]
    return Lines(seqs, np.full(len(seqs), AFTER_ALL), columns)


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
        line["source"] = transaction.source
        line.update(transaction.shown)
        seqs.append(line["seq"])
        steps.append(step)
        lines.append(framing.whole(token, _encode(line)))
    return Lines(np.array(seqs, np.int64), np.array(steps, np.int64), [LineColumn(ListedTexts(lines))])


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
            "source": transaction.source,
            **transaction.shown,
        }
    )


def heartbeat_line(token: str) -> bytes:
    """Returns the line of a heartbeat."""
    return _encode({"token": token, "heartbeat": True})
