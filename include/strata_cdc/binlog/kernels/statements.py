"""Distinguishes the QUERY events that only begin or end a transaction from those that change something.
Not here: what they change (`schema/ddl/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.scan import read_u16
from strata_cdc.binlog.kernels.words import Word

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int

_FIXED_BYTES = 13


def _word(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8).copy()


_BEGIN = _word("BEGIN")
_COMMIT = _word("COMMIT")
_ROLLBACK = _word("ROLLBACK")
_ROLLBACK_TO = _word("ROLLBACK TO")
_SAVEPOINT = _word("SAVEPOINT ")
_RELEASE = _word("RELEASE SAVEPOINT ")
_XA = _word("XA ")
_XA_START = _word("XA START")
_XA_BEGIN = _word("XA BEGIN")
_XA_END = _word("XA END")


@kernel
def starts_with(buffer: Bytes, at: Int, end: Int, word: Bytes) -> bool:
    """Whether the bytes from `at` begin with an upper-case ASCII word, in whatever case."""
    if end - at < len(word):
        return False
    for k in range(len(word)):
        byte = np.int64(buffer[at + k])
        if 97 <= byte <= 122:
            byte -= 32
        if byte != np.int64(word[k]):
            return False
    return True


@kernel
def statement_begin(buffer: Bytes, at: Int, end: Int, post_header: Int) -> Int:
    """Where the text of a QUERY starts; -1 if its lengths run past the end.

    Args:
        buffer: Bytes of the file.
        at: Offset after the event's header.
        end: Offset before its checksum.
        post_header: Bytes of the post-header, as in the file's format.
    """
    if post_header < _FIXED_BYTES or end - at < post_header:
        return np.int64(-1)
    text = at + post_header + read_u16(buffer, at + 11) + np.int64(buffer[at + 8]) + 1
    return text if text <= end else np.int64(-1)


@kernel
def classify(buffer: Bytes, at: Int, end: Int, post_header: Int) -> Int:
    """The word of a QUERY: STATEMENT, BEGIN, END, FRAME or BROKEN_QUERY; arguments as in `statement_begin`.

    The server writes these statements itself, in one form each (sql/binlog.cc, sql/xa.cc).
    """
    text = statement_begin(buffer, at, end, post_header)
    if text < 0:
        return np.int64(Word.BROKEN_QUERY)
    size = end - text
    word = np.int64(Word.STATEMENT)
    if size == 5 and starts_with(buffer, text, end, _BEGIN):
        word = np.int64(Word.BEGIN)
    elif size == 6 and starts_with(buffer, text, end, _COMMIT):
        word = np.int64(Word.END)
    elif starts_with(buffer, text, end, _ROLLBACK):
        word = np.int64(Word.FRAME) if starts_with(buffer, text, end, _ROLLBACK_TO) else np.int64(Word.END)
    elif starts_with(buffer, text, end, _SAVEPOINT) or starts_with(buffer, text, end, _RELEASE):
        word = np.int64(Word.FRAME)
    elif starts_with(buffer, text, end, _XA):
        if starts_with(buffer, text, end, _XA_START) or starts_with(buffer, text, end, _XA_BEGIN):
            word = np.int64(Word.BEGIN)
        elif starts_with(buffer, text, end, _XA_END):
            word = np.int64(Word.FRAME)
        else:
            word = np.int64(Word.END)
    return word
