"""Texts and bytes: converts them to other lengths and charsets and into each other, and reads numbers in texts.
Not here: dates and times in texts (`moments.py`), labels (`labels.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from strata_cdc.schema.model.charsets import CHARSETS, MANY_TO_ONE, decode_text
from strata_cdc.schema.model.types import Family, TypeKind
from strata_cdc.tables.values.numbers import to_decimal, to_floating, to_integers
from strata_cdc.tables.values.pair import by_value

if TYPE_CHECKING:
    from strata_cdc.tables.values.pair import Pair

_OF_UNICODE: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
"""Charsets that have every character."""
_OF_BASIC_PLANE: Final = frozenset({"utf8mb3", "ucs2"})
_OF_ALL_BYTES: Final = _OF_UNICODE | _OF_BASIC_PLANE | {"ascii", "latin1"}
"""Charsets in which every value is returned unchanged."""
_UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "ascii"})
"""Charsets whose bytes are those of Arrow's strings."""
_NOT_OF_ASCII: Final = frozenset({"swe7"})
"""Charsets that have other characters instead of some of ASCII's."""
_WIDE: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32"})

_INTEGER: Final = r"^[+-]?[0-9]{1,30}$"
_DECIMAL: Final = r"^-?[0-9]{1,40}(\.[0-9]{1,30})?$"
_FLOATING: Final = r"^-?[0-9]{1,60}(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,3})?$"


def to_text(values: pa.Array, pair: Pair) -> pa.Array:
    """Texts to a text type, if they fit and its charset has all of their characters.

    Only blanks may be cut off: the server does that, too.
    """
    if pair.before.character_set != pair.after.character_set:
        _require_in_charset(values, pair.after.character_set or "", pair)
    if pair.new.kind is TypeKind.CHAR:
        values = pc.utf8_rtrim(values, " ")
    if pair.new.length is None:
        _require_room(values, pair)
        return values
    length = pair.new.length
    if (pc.max(pc.utf8_length(values)).as_py() or 0) > length:
        pair.require(pc.less_equal(pc.utf8_length(pc.utf8_rtrim(values, " ")), length), "values are longer")
        values = pc.utf8_slice_codeunits(values, 0, length)
    return values


def to_bytes(values: pa.Array, pair: Pair) -> pa.Array:
    """Bytes to BINARY, VARBINARY or a BLOB."""
    capacity = pair.new.length
    if capacity is None and pair.new.kind.facts.capacity is not None:
        capacity = pair.new.kind.facts.capacity(pair.new)
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    if capacity is not None and longest > capacity:
        pair.refuse("values are longer")
    if pair.new.kind is TypeKind.BINARY:
        return by_value(values, lambda value: value.ljust(pair.new.length or 0, b"\0"), pa.binary())
    return values


def text_to_bytes(values: pa.Array, pair: Pair) -> pa.Array:
    """Texts to the bytes of their charset."""
    charset = pair.before.character_set or "utf8mb4"
    if pair.old.kind is TypeKind.CHAR and pair.new == replace(pair.old, kind=TypeKind.BINARY):
        # ALTER in place (9.7, one byte a character) keeps the blanks that fill a CHAR; ALTER by copy fills with zeros.
        pair.require(pc.equal(pc.utf8_length(values), pair.old.length or 0), "values are shorter than their column")
    if charset not in _OF_ALL_BYTES and pc.any(pc.match_substring(values, "?")).as_py():
        pair.refuse(f"values have a '?', as {charset} shows bytes that are no characters")
    if charset in _UTF8 or (charset not in _WIDE and charset not in _NOT_OF_ASCII and _is_ascii(values)):
        return to_bytes(values.cast(pa.binary()), pair)
    codec = CHARSETS[charset].codec if charset in CHARSETS and charset not in MANY_TO_ONE else None
    if codec is None:
        pair.refuse(f"values have characters that {charset} has in a way of its own")
    return to_bytes(by_value(values, lambda value: _encoded(value, codec, pair), pa.binary()), pair)


def bytes_to_text(values: pa.Array, pair: Pair) -> pa.Array:
    """Bytes read in the charset of the new column."""
    charset = pair.after.character_set or "utf8mb4"
    if charset in _WIDE or charset in _NOT_OF_ASCII:
        pair.refuse(f"bytes are read as {charset}")
    try:
        text = values.cast(pa.string())
    except pa.ArrowInvalid:
        text = None
    if text is None or not (charset in _UTF8 or _is_ascii(text)):
        pair.refuse(f"bytes are no {charset}, or not only ASCII")
    if charset in _OF_BASIC_PLANE:
        _require_in_charset(text, charset, pair)
    if charset == "ascii" and not _is_ascii(text):
        pair.refuse("bytes are not ASCII")
    return _fitted(text, pair)


def _fitted(text: pa.Array, pair: Pair) -> pa.Array:
    if pair.new.kind is TypeKind.CHAR:
        text = pc.utf8_rtrim(text, " ")
    if pair.new.length is None:
        _require_room(text, pair)
    elif (pc.max(pc.utf8_length(text)).as_py() or 0) > pair.new.length:
        pair.refuse("values are longer")
    return text


def text_to_number(values: pa.Array, pair: Pair) -> pa.Array:
    """Texts that are only a number, to a number."""
    family = pair.new.kind.facts.family
    form = {Family.DECIMAL: _DECIMAL, Family.FLOATING: _FLOATING}.get(family, _INTEGER)
    pair.require(pc.match_substring_regex(values, form), "texts are no plain numbers")
    if family is Family.FLOATING:
        return to_floating(values.cast(pa.float64()), pair)
    if family is Family.DECIMAL:
        return to_decimal(values.cast(pa.decimal256(76, 30)), pair)
    return to_integers(pc.utf8_ltrim(values, "+").cast(pa.decimal256(76, 0)), pair)


def _encoded(value: str, codec: str, pair: Pair) -> bytes:
    try:
        return value.encode(codec)
    except UnicodeEncodeError:
        pair.refuse("texts have characters that their charset lacks")


def _is_ascii(values: pa.Array) -> bool:
    return bool(pc.all(pc.string_is_ascii(values), min_count=0).as_py())


def _require_in_charset(values: pa.Array, charset: str, pair: Pair) -> None:
    """Refuses texts with characters that a charset lacks, or may have at other codes than Python's codec."""
    if charset in _OF_UNICODE or (charset not in _NOT_OF_ASCII and _is_ascii(values)):
        return
    characters = _characters(values)
    if charset in _OF_BASIC_PLANE:
        if max(characters, default=" ") > "\uffff":
            pair.refuse(f"texts have characters that {charset} lacks")
        return
    known = CHARSETS.get(charset)
    if known is None or known.codec is None or known.max_bytes > 1 or charset in _NOT_OF_ASCII:
        pair.refuse(f"texts have characters that {charset} may lack")
    if not all(_has(character, charset) for character in characters):
        pair.refuse(f"texts have characters that {charset} lacks")


def _has(character: str, charset: str) -> bool:
    try:
        return decode_text(character.encode(CHARSETS[charset].codec or "ascii"), charset) == character
    except UnicodeEncodeError:
        return False


def _characters(values: pa.Array) -> set[str]:
    """All different characters in some texts."""
    texts = pc.unique(values.drop_null())
    joined = "".join(texts.filter(pc.invert(pc.string_is_ascii(texts))).to_pylist())
    numbers = np.frombuffer(joined.encode("utf_32_le", errors="surrogatepass"), np.uint32)
    return {chr(number) for number in np.unique(numbers)}


def _require_room(values: pa.Array, pair: Pair) -> None:
    """Refuses texts with more bytes than a TEXT can have."""
    capacity = pair.new.kind.facts.capacity(pair.new) if pair.new.kind.facts.capacity is not None else 0
    charset = CHARSETS.get(pair.after.character_set or "")
    wide = 4 if charset is None else charset.max_bytes
    if (pc.max(pc.utf8_length(values)).as_py() or 0) * wide <= capacity:
        return
    in_utf8 = pair.after.character_set in _UTF8
    if not in_utf8 or (pc.max(pc.binary_length(values)).as_py() or 0) > capacity:
        pair.refuse("values are longer")
