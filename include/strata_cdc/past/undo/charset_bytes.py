"""Texts in the bytes of MySQL's charsets: the inverse of what the decoder does.
Not here: the tables (`changes/charset.py`), bytes that are not the usual ones of their text (`_invalid` has them)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from strata_cdc.binlog.kernels.charsets import ALIAS
from strata_cdc.changes.charset import UTF8, characters_of, charset_table

_CODECS: Final = {
    "ucs2": "utf_16_be",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
} | dict.fromkeys(UTF8, "utf_8")


class NoSuchCharacterError(Exception):
    """A charset does not have a character."""


def encoded_text(charset: str, text: str) -> bytes:
    """The usual bytes of a text.

    Args:
        charset: MySQL's name of it.
        text: Of characters that the charset has.

    Raises:
        NoSuchCharacterError: It lacks one.
        UnsupportedEventError: MySQL has no such charset.
    """
    try:
        if charset in _CODECS:
            return text.encode(_CODECS[charset])
        table = _bytes_of_characters(charset)
        return b"".join(table[ch] for ch in text)
    except (KeyError, UnicodeEncodeError):
        raise NoSuchCharacterError(f"{charset} does not have all of its characters") from None


@lru_cache(maxsize=64)
def _bytes_of_characters(charset: str) -> dict[str, bytes]:
    _, table = charset_table(charset)
    codes = ((int(table[place]), data) for place, data in characters_of(charset))
    return {chr(code): data for code, data in codes if code >= 0 and not code & ALIAS}
