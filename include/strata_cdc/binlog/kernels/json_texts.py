"""Whether texts are JSON (RFC 8259), byte by byte.
Not here: making such text from the log (`jsonb.py`, `json_values.py`), which is checked here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import load_u8

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Offsets

_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _NEXT, _DONE = range(7)
_QUOTE, _BACKSLASH, _COMMA, _POINT, _MINUS, _PLUS, _ZERO, _NINE = 34, 92, 44, 46, 45, 43, 48, 57
_ARRAY, _ARRAY_END, _OBJECT, _OBJECT_END = 91, 93, 123, 125


@part
def is_space(byte: Int) -> bool:
    """Whether a byte is white space between tokens."""
    return bool(byte == 32 or 9 <= byte <= 10 or byte == 13)


@part
def is_digit(data: Bytes, at: Int, end: Int) -> bool:
    """Whether there is a digit at `at`."""
    return bool(at < end and _ZERO <= load_u8(data, at) <= _NINE)


@part
def digits_end(data: Bytes, at: Int, end: Int) -> Int:
    """Position after the digits from `at` on; -1 if there is none."""
    if not is_digit(data, at, end):
        return np.int64(-1)
    while is_digit(data, at, end):
        at += np.int64(1)
    return at


@part
def escape_end(data: Bytes, at: Int, end: Int) -> Int:
    """Position after the escape whose backslash is before `at`; -1 if it is not an escape."""
    if at >= end:
        return np.int64(-1)
    byte = load_u8(data, at)
    if byte != 117:  # u
        for known in (34, 92, 47, 98, 102, 110, 114, 116):
            if byte == known:
                return at + 1
        return np.int64(-1)
    if at + 5 > end:
        return np.int64(-1)
    for k in range(at + 1, at + 5):
        digit = load_u8(data, k) | 32
        if not (_ZERO <= load_u8(data, k) <= _NINE or 97 <= digit <= 102):
            return np.int64(-1)
    return at + 5


@part
def text_end(data: Bytes, at: Int, end: Int) -> Int:
    """Position after the closing quote of a text; `at` is after its opening quote; -1 if it is not a text."""
    while at < end:
        byte = load_u8(data, at)
        if byte == _QUOTE:
            return at + 1
        if byte < 32:
            return np.int64(-1)
        at += np.int64(1)
        if byte == _BACKSLASH:
            at = escape_end(data, at, end)
            if at < 0:
                return at
    return np.int64(-1)


@part
def number_end(data: Bytes, at: Int, end: Int) -> Int:
    """Position after a number; -1 if there is none."""
    if at < end and load_u8(data, at) == _MINUS:
        at += np.int64(1)
    first = at
    at = digits_end(data, at, end)
    if at < 0 or (load_u8(data, first) == _ZERO and at > first + 1):
        return np.int64(-1)
    if at < end and load_u8(data, at) == _POINT:
        at = digits_end(data, at + 1, end)
    if 0 <= at < end and load_u8(data, at) | 32 == 101:  # e
        at += np.int64(1)
        if at < end and (load_u8(data, at) == _PLUS or load_u8(data, at) == _MINUS):
            at += np.int64(1)
        at = digits_end(data, at, end)
    return at


@part
def word_end(data: Bytes, at: Int, end: Int) -> Int:
    """Position after `true`, `false` or `null`; -1 if there is none."""
    for size, word in ((4, 0x65757274), (5, 0x736C6166), (4, 0x6C6C756E)):
        if at + size <= end:
            letters = np.int64(0)
            for k in range(4):
                letters |= load_u8(data, at + k) << np.int64(8 * k)
            if letters == word and (size == 4 or load_u8(data, at + 4) == 101):
                return at + size
    return np.int64(-1)


@part
def scalar_end(data: Bytes, at: Int, end: Int) -> Int:
    """Position after a text, number or word; -1 if there is none."""
    byte = load_u8(data, at)
    if byte == _QUOTE:
        return text_end(data, at + 1, end)
    if byte == _MINUS or _ZERO <= byte <= _NINE:
        return number_end(data, at, end)
    return word_end(data, at, end)


@part
def after_value(depth: Int) -> Int:
    """What is expected after a value."""
    return np.int64(_DONE) if depth == 0 else np.int64(_NEXT)


@part
def closes(byte: Int, wanted: Int, kind: Int) -> bool:
    """Whether a byte ends the array (`kind` 0) or object (1) that is open."""
    if wanted not in (_NEXT, _VALUE_OR_END, _KEY_OR_END):
        return False
    return bool(byte == (_OBJECT_END if kind else _ARRAY_END))


@part
def step(data: Bytes, at: Int, end: Int, wanted: Int) -> tuple[Int, Int]:
    """Position after the token at `at`, which neither opens nor closes anything, and what is expected then; -1 if it is
    not allowed there. `_DONE` means a whole value."""
    byte = load_u8(data, at)
    if wanted in (_VALUE, _VALUE_OR_END):
        return scalar_end(data, at, end), np.int64(_DONE)
    if wanted in (_KEY, _KEY_OR_END):
        return (text_end(data, at + 1, end) if byte == _QUOTE else np.int64(-1)), np.int64(_COLON)
    if wanted == _COLON:
        return (at + 1 if byte == 58 else np.int64(-1)), np.int64(_VALUE)
    return (at + 1 if wanted == _NEXT and byte == _COMMA else np.int64(-1)), np.int64(_NEXT)


@part
def is_json(data: Bytes, at: Int, end: Int, stack: Bytes) -> bool:
    """Whether the bytes from `at` to `end` are one JSON value, nested no deeper than the stack."""
    depth, wanted = np.int64(0), np.int64(_VALUE)
    while at < end:
        byte = load_u8(data, at)
        kind = np.int64(stack[depth - 1]) if depth > 0 else np.int64(0)
        is_open = byte in (_ARRAY, _OBJECT)
        if is_space(byte):
            at += np.int64(1)
        elif is_open and (wanted in (_VALUE, _VALUE_OR_END)):
            if depth == stack.shape[0]:
                return False
            stack[depth] = np.uint8(byte == _OBJECT)
            depth += np.int64(1)
            wanted = np.int64(_KEY_OR_END) if byte == _OBJECT else np.int64(_VALUE_OR_END)
            at += np.int64(1)
        elif depth > 0 and closes(byte, wanted, kind):
            depth -= np.int64(1)
            wanted = after_value(depth)
            at += np.int64(1)
        else:
            at, wanted = step(data, at, end, wanted)
            if at < 0:
                return False
            if wanted == _DONE:
                wanted = after_value(depth)
            elif wanted == _NEXT:
                wanted = np.int64(_KEY) if kind else np.int64(_VALUE)
    return bool(wanted == _DONE)


@kernel
def find_no_json(data: Bytes, offsets: Offsets, stack: Bytes, bad: Bytes) -> Int:
    """Sets a byte for each text that is not JSON.

    Args:
        data: The bytes of all texts.
        offsets: One more than texts: where each text begins.
        stack: As many bytes as values may be nested.
        bad: One byte per text, all zero.

    Returns:
        The number of texts that are not JSON.
    """
    bad_count = np.int64(0)
    for i in range(bad.shape[0]):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if begin < 0 or end < begin or end > data.shape[0] or not is_json(data, begin, end, stack):
            bad[i] = 1
            bad_count += np.int64(1)
    return bad_count
