"""The text form of event tokens: short, with characters that every URL and header accepts, refused if damaged.
Not here: what tokens mean (`token.py`), texts of former versions (`token_before.py`).

`v4.`, a head, `.`, numbers, and a seal. The head is base64url without padding (RFC 4648) of MessagePack:

    [uuids, used, [same, form, same, form, ...], parts]

`uuids` has each server's UUID once (16 bytes each), in the order of first use; `used` says which one each server has,
and is empty if each UUID is used once. For each source, in the order of the names, `form` is the end of the array

    [position, origins, lineage, source]
    position = [spans, ...]                 a GTID set: for each server, how many spans; [tag, spans] with a tag
             | file name                    a position in a server's files
             | 0 or 1                       a commit timestamp of TiDB; 1: with the DDL that finished with it
    origins  = [[source, lineage, position], ...]      what was copied; the position is nil if it is the source's own

as MessagePack, of which the first `same` bytes are those of the source before. The transactions that were received in
part are

    parts = [[source, server, spans, distance], ...]

`source` is an index, and `server` is one in the position, or the tag of another server; the transaction's number is
`distance` after the first `spans` spans of the server. In files the three are 0. At commit timestamps `server` is 1 for
a DDL, and `distance` is how much later its timestamp is.

The numbers are, for each source, the first and last number of each span, the offset in the file, or the commit
timestamp and how many commits the source has up to there; the same of each
origin; the commit time in microseconds. Then come the steps of each part. Each number is written in
digits of five bits, the lowest first, as letters of base64url; all but its last digit have 32 added.

The seal is the CRC32 (big-endian, 6 letters of base64url) of all that is before it. It detects a token that was cut,
mistyped, or put together from two; it does not detect a forged token. There is one text for each token; other texts
with the same meaning are refused, except those that former versions have written.

So the tokens of a stream's transactions have the same head until the number of spans changes, and those of the rows of
a transaction differ in the last number and the seal only.
"""

from __future__ import annotations

import re

import msgspec

from strata_cdc.errors import InvalidTokenError, Usage
from strata_cdc.position import token_before, token_seal
from strata_cdc.position.token import Token

_FORM = re.compile(r"(v[0-9]+)\.([A-Za-z0-9_-]+)((?:\.[A-Za-z0-9_-]+)*)")
_NUMBERS = re.compile(r"(?:\.[0-9]{1,20})*")
"""What followed the letters in former versions."""


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
        raise _refused(text, "is not an event token", "A token begins with `v4.`; `strata token show TOKEN` reads one.")
    version, is_former = form[1], form[1] in token_before.VERSIONS
    if version != token_seal.VERSION and not is_former:
        raise _refused(text, f"is an event token of version {version}", "Read it with a newer version of Strata.")
    if not _NUMBERS.fullmatch(form[3]) if is_former else form[3].count(".") != 1:
        raise _refused(text, "is cut or damaged")
    try:
        positions = token_before.opened(text) if is_former else token_seal.opened(text)
    except (msgspec.DecodeError, Usage, ValueError) as error:
        raise _refused(text, f"is no token that Strata has written: {error}") from None
    if positions is None:
        raise _refused(text, "is cut or damaged")
    token, sources = Token(positions), [source_position.source for source_position in positions]
    # Sources or spans in another order, twice, or adjacent; spare bits.
    if sources != sorted(set(sources)) or not (is_former or to_text(token) == text):
        raise _refused(text, "is no token that Strata has written: it has another form")
    return token


def _refused(text: str, problem: str, remedy: str = "Copy the whole of it again.") -> InvalidTokenError:
    shown = text if len(text) <= 60 else f"{text[:40]}...{text[-10:]}"
    return InvalidTokenError(f"{shown!r} {problem}", remedy=remedy)
