"""Members of ENUM and SET as the server keeps them: bytes in the column's charset, without trailing blanks.
Not here: how COLUMN_TYPE quotes them (`schema/model/types.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.ill_formed import read_utf8mb4
from strata_cdc.schema.ddl.literals import Literal, LiteralKind
from strata_cdc.schema.model.charsets import CHARSETS, decode_text
from strata_cdc.schema.model.types import LABELLED, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.model.definition import Column

_WIDTHS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
_ONE_OR_TWO_BYTES = frozenset({"big5", "cp932", "euckr", "gb2312", "gbk", "sjis"})
_SINGLE_KATAKANA = frozenset({"cp932", "sjis"})
_SHOWN_AS_THEY_ARE = frozenset({"binary", "utf8mb3"})


def label_bytes(labels: Iterable[Literal], charset: str) -> tuple[bytes, ...]:
    """The bytes of labels in a statement; `?` for characters that the charset does not have."""
    as_bytes = []
    for label in labels:
        if label.kind is LiteralKind.TEXT:
            raw = label.text.encode(codec_of(charset), errors="replace")
        else:
            raw = bytes_of_literal(label, charset)
        as_bytes.append(raw if charset == "binary" else _without_trailing_blanks(raw, charset))
    return tuple(as_bytes)


def bytes_of_literal(literal: Literal, charset: str) -> bytes:
    """The bytes of a hexadecimal or bit literal, filled up to whole characters if all characters have the same
    width."""
    raw = literal.raw_bytes()
    width = _WIDTHS.get(charset, 1)
    return raw.rjust(-(-len(raw) // width) * width, b"\0")


def shown_label(raw: bytes, charset: str) -> str:
    """A label as information_schema shows it (sql/field.cc, `Field_enum::sql_type`).

    Labels in binary and utf8mb3 are shown without a conversion: bytes that are not UTF-8 become surrogates here. Labels
    in utf8mb4 are shown only up to a cut character, with `?` for other bytes without meaning.

    Raises:
        DdlError: The bytes have no text in another charset of several bytes; each such charset has its own rules for
            them.
    """
    if raw.isascii() and charset not in _WIDTHS:
        return raw.decode(codec_of(charset))
    if charset in _SHOWN_AS_THEY_ARE:
        return _shown_as_it_is(raw, charset)
    if charset == "utf8mb4":
        return read_utf8mb4(raw)
    if CHARSETS[charset].max_bytes == 1:
        return decode_text(raw, charset).replace("\ufffd", "?")
    width = _WIDTHS.get(charset, 1)
    try:
        return raw[: len(raw) // width * width].decode(codec_of(charset))
    except UnicodeDecodeError as fault:
        if charset in _ONE_OR_TWO_BYTES:
            return _shown_of_two_bytes(raw, charset)
        raise DdlError(f"a label is not text in {charset}: {raw.hex()}") from fault


def _shown_as_it_is(raw: bytes, charset: str) -> str:
    text = raw.decode("utf_8", errors="surrogateescape")
    return text if charset == "binary" or max(text) <= "\uffff" else raw.decode("ascii", errors="surrogateescape")


def _shown_of_two_bytes(raw: bytes, charset: str) -> str:
    """The same result as `my_mb_wc_gbk` and similar functions: `?` for two bytes without meaning; it ends at a cut
    character."""
    text, at = "", 0
    while at < len(raw):
        alone = raw[at] < 0x80 or (charset in _SINGLE_KATAKANA and 0xA1 <= raw[at] <= 0xDF)
        size = 1 if alone else 2
        if at + size > len(raw):
            break
        character = raw[at : at + size].decode(codec_of(charset), errors="replace")
        text += character if len(character) == 1 and character != "\ufffd" else "?"
        at += size
    return text


def raw_labels(column: Column) -> tuple[bytes, ...] | None:
    """The bytes of a column's labels; None for a column without labels."""
    if column.label_bytes is not None:
        return tuple(bytes.fromhex(label) for label in column.label_bytes)
    column_type = parse_column_type(column.column_type)
    if column_type.kind not in LABELLED:
        return None
    codec = codec_of(column.character_set or "binary")
    return tuple(label.encode(codec, errors="replace") for label in column_type.labels)


def hidden_bytes(raw: tuple[bytes, ...], charset: str) -> tuple[str, ...] | None:
    """The bytes in hexadecimal, if they do not follow from the text that is shown; else None."""
    codec = codec_of(charset)
    if all(shown_label(label, charset).encode(codec, errors="replace") == label for label in raw):
        return None
    return tuple(label.hex() for label in raw)


def codec_of(charset: str) -> str:
    """Python's codec for labels and defaults in a charset; UTF-8 for charsets without a codec."""
    return CHARSETS[charset].codec or "utf_8"


def _without_trailing_blanks(raw: bytes, charset: str) -> bytes:
    blank = " ".encode(codec_of(charset))
    while raw.endswith(blank):
        raw = raw[: -len(blank)]
    return raw
