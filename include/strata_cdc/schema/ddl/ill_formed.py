"""Bytes of a utf8mb4 client's statement that are not UTF-8: what the server makes of them in names and comments.
Not here: labels written as bytes (`schema/apply/labels.py`), text in other charsets (`decode_text`)."""

from __future__ import annotations

import codecs
import re
from typing import Final

from strata_cdc.schema.ddl.secrets import mask_secrets

_MARK: Final = "\ufffe"
"""Marks each byte that was kept. It is not a character, so text does not contain it."""
_KEPT = re.compile(f"{_MARK}(.)", re.DOTALL)
_KEEP: Final = "strata.keep_bytes"


def decode_utf8mb4(raw: bytes) -> str:
    """The text of the bytes. Each ill-formed byte is kept, because its result depends on where it is."""
    text = raw.decode("utf_8", errors=_KEEP)
    if _MARK in text and _MARK.encode() in raw:
        return raw.replace(_MARK.encode(), b"\xef\xbf\xbd").decode("utf_8", errors="replace")
    return text


def _kept(fault: UnicodeError) -> tuple[str, int]:
    if not isinstance(fault, UnicodeDecodeError):
        raise fault
    return "".join(_MARK + chr(byte) for byte in fault.object[fault.start : fault.end]), fault.end


codecs.register_error(_KEEP, _kept)


def has_kept_bytes(text: str) -> bool:
    """Whether a part of a statement has bytes that are not text."""
    return _MARK in text


def as_the_server_reads(text: str) -> str:
    """A name or a string of a statement, converted as the server does it."""
    if _MARK not in text:
        return text
    parts = _KEPT.split(text)  # text and kept bytes alternate
    return read_utf8mb4(b"".join(part.encode("latin_1" if at % 2 else "utf_8") for at, part in enumerate(parts)))


def as_one_looks_at(text: str) -> str:
    """A statement for people and for the store: with U+FFFD for bytes that are not text, and without passwords."""
    return mask_secrets(_KEPT.sub("\ufffd", text))


def read_utf8mb4(raw: bytes) -> str:
    """The same result as `my_convert` with `my_mb_wc_utf8mb4` (strings/ctype-utf8.cc): the text ends at a cut
    character, and other bytes without meaning become `?`. A lead byte needs all its bytes before any of them is
    checked."""
    text, at = "", 0
    while at < len(raw):
        lead = raw[at]
        size = 1 if lead < 0xC2 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if at + size > len(raw):
            break
        try:
            text += raw[at : at + size].decode("utf_8")
        except UnicodeDecodeError:
            text, size = text + "?", 1
        at += size
    return text
