"""Codecs for the charsets of which Python's codecs have other characters than MySQL, or which Python does not have.
Not here: what the characters are (`characters.py`), cells of rows (`changes/charset.py`)."""

from __future__ import annotations

import codecs
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from strata_cdc.schema.model.charsets.characters import EXCEPTIONS

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PREFIX: Final = "mysql_"
_BEYOND_TWO_BYTES: Final = 0x10000
_OF_IBM: Final = [
    bytes([first, second])
    for first in (0xFA, 0xFB, 0xFC)
    for second in range(0x40, 0xFD if first < 0xFC else 0x4C)
    if second != 0x7F
]
"""In cp932, IBM's characters. NEC's codes for them begin with ED and EE; the server and Windows write IBM's own."""
_OF_NEC: Final = (0xED, 0xEE)
_ONE_BYTE: Final = re.compile(b".", re.DOTALL)
_OF_JIS = re.compile(rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]|.", re.DOTALL)
_OF_EUC = re.compile(rb"\x8f[\xa1-\xfe]{2}|[\x8e\xa1-\xfe][\xa1-\xfe]|.", re.DOTALL)
_CHARACTER: Final = {
    "big5": re.compile(rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]|.", re.DOTALL),
    "cp932": _OF_JIS,
    "sjis": _OF_JIS,
    "eucjpms": _OF_EUC,
    "ujis": _OF_EUC,
    "gb18030": re.compile(rb"[\x81-\xfe](?:[\x40-\x7e\x80-\xfe]|[0-9][\x81-\xfe][0-9])|.", re.DOTALL),
}
"""One character of a charset, or a byte that begins none (strings/ctype-sjis.cc and similar files, `ismbchar_*`)."""


def exact_codec(charset: str, codec: str | None) -> str | None:
    """The name of a codec with exactly MySQL's characters: `codec`, Python's own, if that has them; None if neither
    has."""
    if charset not in EXCEPTIONS:
        return codec
    exact = _ExactCodec(charset, codec)
    info = codecs.CodecInfo(exact.encode, exact.decode, name=exact.name)
    codecs.register(lambda wanted: info if wanted == exact.name else None)
    return exact.name


def characters_in(raw: bytes, charset: str) -> list[bytes]:
    """The bytes of each character, as the server cuts them."""
    return _CHARACTER.get(charset, _ONE_BYTE).findall(raw)


class _ExactCodec:
    """Of one charset; its tables are made when it is used."""

    def __init__(self, charset: str, codec: str | None) -> None:
        self.charset = charset
        self.codec = codec
        self.name = _PREFIX + charset
        self.texts: dict[bytes, str | None] = {}
        """Characters that were read, by their bytes."""
        self.forms: dict[str, bytes | None] = {}
        """The bytes of characters that were written."""

    def decode(self, given: ReadableBuffer, errors: str = "strict") -> tuple[str, int]:
        raw, texts, at = bytes(given), [], 0
        if self.codec and self.is_as_in_python(raw):
            return raw.decode(self.codec, errors), len(raw)
        for data in characters_in(raw, self.charset):
            text = self.text_of(data)
            if text is None:
                fault = UnicodeDecodeError(self.name, raw, at, at + len(data), "no character")
                text = str(codecs.lookup_error(errors)(fault)[0])
            texts.append(text)
            at += len(data)
        return "".join(texts), len(raw)

    def encode(self, text: str, errors: str = "strict") -> tuple[bytes, int]:
        raw, parts = text.encode(self.codec, errors="ignore") if self.codec else b"", []
        if len(raw) == len(text) and self.is_as_in_python(raw):
            return raw, len(text)
        for at, character in enumerate(text):
            data = self.bytes_of(character)
            if data is None:
                fault = UnicodeEncodeError(self.name, text, at, at + 1, "no character")
                made = codecs.lookup_error(errors)(fault)[0]
                data = made if isinstance(made, bytes) else made.encode("ascii")
            parts.append(data)
        return b"".join(parts), len(text)

    def is_as_in_python(self, raw: bytes) -> bool:
        """Whether each byte is a character that is the same there: what long texts need."""
        return self.charset not in _CHARACTER and not raw.translate(None, self.same_bytes)

    def text_of(self, data: bytes) -> str | None:
        """A character; None if the bytes are none."""
        if data not in self.texts:
            of_python = data.decode(self.codec, errors="replace") if self.codec else ""
            is_one = len(of_python) == 1 and of_python != "\ufffd"
            self.texts[data] = self.exceptions.get(data, of_python if is_one else None)
        return self.texts[data]

    def bytes_of(self, character: str) -> bytes | None:
        """The bytes that the server writes for a character; None if the charset does not have it."""
        if character not in self.forms:
            data = character.encode(self.codec or "ascii", errors="ignore")
            is_usual = self.text_of(data) == character and not (self.charset == "cp932" and data[0] in _OF_NEC)
            self.forms[character] = data if is_usual else self.other_forms.get(character)
        return self.forms[character]

    @cached_property
    def exceptions(self) -> dict[bytes, str | None]:
        """The characters that are not those of Python's codec, by their bytes; None: no character."""
        characters: dict[bytes, str | None] = {}
        for run in EXCEPTIONS[self.charset].split():
            place, _, rest = run.partition("-")
            code, _, count = rest.partition("*")
            for step in range(int(count)):
                data = _bytes_at(self.charset, int(place, 16) + step)
                characters[data] = None if code == "x" else chr(int(code, 16) + step)
        return characters

    @cached_property
    def same_bytes(self) -> bytes:
        return bytes(byte for byte in range(256) if bytes([byte]) not in self.exceptions)

    @cached_property
    def other_forms(self) -> dict[str, bytes]:
        """The bytes of characters that Python has at others, or not at all; of several forms, the first is usual."""
        forms = {text: data for data, text in reversed(self.exceptions.items()) if text is not None}
        if self.charset == "cp932":
            forms |= {data.decode(self.codec or ""): data for data in _OF_IBM}
        return forms


def _bytes_at(charset: str, place: int) -> bytes:
    """The bytes of the character at a position of the tables (`changes/charset.py`, `characters_of`)."""
    if place < 0x100:
        return bytes([place])
    if place < _BEYOND_TWO_BYTES:
        return place.to_bytes(2, "big")
    if charset != "gb18030":
        return b"\x8f" + (place - _BEYOND_TWO_BYTES).to_bytes(2, "big")
    rest, fourth = divmod(place - _BEYOND_TWO_BYTES, 10)
    rest, third = divmod(rest, 126)
    first, second = divmod(rest, 10)
    return bytes([first + 0x81, second + 0x30, third + 0x81, fourth + 0x30])
