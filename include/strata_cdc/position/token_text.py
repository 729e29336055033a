"""The text form of event tokens: short, with characters that every URL and header accepts, refused if damaged.
Not here: what tokens mean (`token.py`), their bytes (`token_packed.py`).

`v1.` and, in base64url without padding (RFC 4648), a CRC32 (4 bytes, big-endian) and MessagePack (array of positions of
sources):

    [[source, lineage, committed_at, position], ...]
    position = [0, [[uuid, tag, [first, last, first, last, ...]], ...]]     a GTID set
             | [1, uuid, file name, offset]                                 a position in a server's files

`uuid` has 16 bytes, all numbers are integers. There is one text for each token; other texts with the same
meaning are refused. The CRC detects a token that was cut or mistyped; it does not detect a forged token.

A token inside a transaction begins with `v2.`: its positions have a fifth field,

    [[uuid, tag, number], ...]      the transactions that were received in part; [0] in a server's files

and after the base64 each of them has `.` and a number, steps * 65536 + check. So the tokens of the rows of one
transaction differ only in the last number (`StepTexts`).

A token of rows that were copied begins with `v3.`: its positions have the fifth field, and a sixth,

    [[source, lineage, position], ...]      what was copied; the position is nil if it is the source's own position
"""

from __future__ import annotations

import base64
import re
import zlib

import msgspec

from strata_cdc.errors import InvalidTokenError, Usage
from strata_cdc.position.token import Token
from strata_cdc.position.token_packed import READERS
from strata_cdc.position.token_seal import CRC_BYTES, steps_of

_FORM = re.compile(r"(v[0-9]+)\.([A-Za-z0-9_-]+)((?:\.[0-9]{1,20})*)")
_MOST_STEPS = 1 << 44


def to_text(token: Token) -> str:
    """The text of a token, as `str` returns it."""
    return str(token)


def from_text(text: str) -> Token:
    """Reads the text of a token; blanks around it, as copying leaves them, are ignored.

    Raises:
        InvalidTokenError: The text is no token, is damaged, or comes from a newer version of Strata.
    """
    text = text.strip()
    form = _FORM.fullmatch(text)
    if form is None:
        raise _refused(text, "is not an event token", "A token begins with `v1.`; `strata token show TOKEN` reads one.")
    if form[1] not in READERS:
        raise _refused(text, f"is an event token of version {form[1]}", "Read it with a newer version of Strata.")
    try:
        raw = base64.b64decode(form[2] + "=" * (-len(form[2]) % 4), b"-_", validate=True)
    except ValueError:
        raise _refused(text, "is cut or damaged") from None
    crc, body = raw[:CRC_BYTES], raw[CRC_BYTES:]
    if zlib.crc32(body).to_bytes(CRC_BYTES, "big") != crc:
        raise _refused(text, "is cut or damaged")
    try:
        steps = [min(steps_of(int(number)), _MOST_STEPS) for number in form[3].split(".")[1:]]
        token = Token(READERS[form[1]](body, steps))
    except (msgspec.DecodeError, Usage) as error:
        raise _refused(text, f"is no token that Strata has written: {error}") from None
    sources = [place.source for place in token.places]
    # Sources or spans in another order, twice, or adjacent; spare bits of base64.
    if sources != sorted(set(sources)) or to_text(token) != text:
        raise _refused(text, "is no token that Strata has written: it has another form")
    return token


def _refused(text: str, problem: str, remedy: str = "Copy the whole of it again.") -> InvalidTokenError:
    shown = text if len(text) <= 60 else f"{text[:40]}...{text[-10:]}"
    return InvalidTokenError(f"{shown!r} {problem}", remedy=remedy)
