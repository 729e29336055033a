"""Columns of texts that stand for bytes: base64, hexadecimal, and the code points of ISO 8859-1.
Not here: other values (`values.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Lengths = npt.NDArray[np.int64]

_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PADDING: Final = ord("=")
_NO_DIGIT: Final = 0xFF


class BinaryForm(StrEnum):
    """How a sink writes the bytes of BINARY, VARBINARY and BLOB."""

    BASE64 = "base64"
    HEX = "hex"
    CODE_POINTS = "code-points"
    """Of canal-json: each byte is the character with its number."""


class NotEncodedError(ValueError):
    """A text is not in the form."""


def bytes_of(texts: pa.Array, form: BinaryForm) -> pa.Array:
    """The bytes that the texts of a column stand for; NULL stays NULL.

    Raises:
        NotEncodedError: A text is not in the form.
    """
    data, lengths = _contents(texts)
    decoded, decoded_lengths = _DECODERS[form](data, lengths)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(decoded_lengths))).astype(np.int32)
    validity = pa.array(texts.is_valid()).buffers()[1] if texts.null_count else None
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(decoded)]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers, texts.null_count)


def _contents(texts: pa.Array) -> tuple[Bytes, Lengths]:
    """All bytes of the column without gaps, and the length of each text; 0 of NULL."""
    _, ends, content = texts.buffers()
    offsets = np.frombuffer(ends, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    if content is None:
        return np.zeros(0, np.uint8), np.diff(offsets)
    return np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]], np.diff(offsets)


def _digits(data: Bytes, table: Bytes) -> Bytes:
    values = table[data]
    if (values == _NO_DIGIT).any():
        raise NotEncodedError("a character that the form does not have")
    return values


def _table(*alphabets: bytes) -> Bytes:
    values = np.full(256, _NO_DIGIT, np.uint8)
    for alphabet in alphabets:
        values[np.frombuffer(alphabet, np.uint8)] = np.arange(len(alphabet), dtype=np.uint8)
    return values


_OF_BASE64: Final = _table(_BASE64)
_OF_BASE64[_PADDING] = 0
_OF_HEX: Final = _table(b"0123456789abcdef", b"0123456789ABCDEF")


def _from_base64(data: Bytes, lengths: Lengths) -> tuple[Bytes, Lengths]:
    if (lengths & 3).any():
        raise NotEncodedError("a length that is no multiple of four")
    quads = _digits(data, _OF_BASE64).reshape(-1, 4)
    is_pad = (data == _PADDING).reshape(-1, 4)
    ends = np.cumsum(lengths) // 4
    last = ends[lengths > 0] - 1
    pads = np.zeros(len(lengths), np.int64)
    pads[lengths > 0] = is_pad[last].sum(axis=1)
    is_odd = is_pad[:, :2].any() or (is_pad[:, 2] & ~is_pad[:, 3]).any()
    if is_odd or int(pads.sum()) != int(is_pad.sum()):
        raise NotEncodedError("padding before the end")
    triples = np.empty((len(quads), 3), np.uint8)
    triples[:, 0] = quads[:, 0] << 2 | quads[:, 1] >> 4
    triples[:, 1] = quads[:, 1] << 4 | quads[:, 2] >> 2
    triples[:, 2] = quads[:, 2] << 6 | quads[:, 3]
    return triples[~is_pad[:, 1:]], lengths // 4 * 3 - pads


def _from_hex(data: Bytes, lengths: Lengths) -> tuple[Bytes, Lengths]:
    if (lengths & 1).any():
        raise NotEncodedError("an odd number of digits")
    pairs = _digits(data, _OF_HEX).reshape(-1, 2)
    decoded: Bytes = (pairs[:, 0] << 4 | pairs[:, 1]).astype(np.uint8, copy=False)
    return decoded, lengths // 2


def _from_code_points(data: Bytes, lengths: Lengths) -> tuple[Bytes, Lengths]:
    """UTF-8 of U+0080 to U+00FF is 0xC2 or 0xC3 and another byte."""
    if (data > 0xC3).any():
        raise NotEncodedError("a character beyond U+00FF")
    is_lead = data >= 0xC2
    rest = np.flatnonzero(is_lead) + 1
    decoded = data.copy()
    decoded[rest] = (data[rest - 1] & 3) << 6 | data[rest] & 0x3F
    # How many characters of two bytes each text has.
    counts = np.concatenate((np.zeros(1, np.int64), np.cumsum(is_lead)))
    ends = np.cumsum(lengths)
    return decoded[~is_lead], lengths - (counts[ends] - counts[ends - lengths])


_DECODERS: Final[dict[BinaryForm, Callable[[Bytes, Lengths], tuple[Any, Any]]]] = {
    BinaryForm.BASE64: _from_base64,
    BinaryForm.HEX: _from_hex,
    BinaryForm.CODE_POINTS: _from_code_points,
}
