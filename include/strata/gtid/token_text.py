"""The text form of event tokens: short, with characters that every URL and header takes, refused when damaged.
Not here: what tokens mean (`token.py`), their bytes (`token_packed.py`).

`v1.` and, in base64url without padding (RFC 4648), a CRC32 (4 bytes, big-endian) and MessagePack (array of places):

    [[source, lineage, committed_at, position], ...]
    position = [0, [[uuid, tag, [first, last, first, last, ...]], ...]]     a GTID set
             | [1, uuid, file name, offset]                                 a place in a server's files

`uuid` has 16 bytes, all numbers are integers. There is one text for each token; others that would say the same are
refused. The CRC finds a token that was cut or mistyped; it does not find one that was forged.

A token that stands inside of a transaction begins with `v2.`: its places have a fifth field,

    [[uuid, tag, number], ...]      the transactions of which a part has been given; [0] in a server's files

and behind the base64 each of them has `.` and a number, steps * 65536 + check. So the tokens of the rows of one
transaction differ in the last number only (`StepTexts`).

A token of rows that were copied begins with `v3.`: its places have the fifth field, and a sixth,

    [[source, lineage, position], ...]      what was copied; the position is nil where it is the place's own
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from strata.errors import InvalidTokenError, Usage
from strata.gtid.token import Place, Token
from strata.gtid.token_packed import COPIED, PARTIAL, READERS, WHOLE, array_head, packed_place

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from strata.gtid.token_packed import PackedPlace

Numbers = Any
"""An array of 64-bit integers: this room has no arrays of its own."""
_FORM = re.compile(r"(v[0-9]+)\.([A-Za-z0-9_-]+)((?:\.[0-9]{1,20})*)")
_CRC_BYTES = 4
_CHECKS = 1 << 16
_MULTIPLIER = 40503
"""Odd, and near 2^16 by the golden ratio: neighbouring numbers get checks that lie far apart."""
_MOST_STEPS = 1 << 44


def to_text(token: Token) -> str:
    """The text of a token: about 75 characters for one server's GTIDs, 25 to 35 more for each further server, and 40
    more for one that stands inside of a transaction."""
    return text_of([packed_place(place) for place in token.places])


def text_of(places: Collection[PackedPlace]) -> str:
    """As `to_text` of a token with these places, in the order of their sources."""
    if not any(place.steps or place.is_copied for place in places):
        return f"{WHOLE}.{_sealed_bytes(_joined([place.whole for place in places]))[1]}"
    version, crc, text = _sealed_inside(places)
    numbers = (step_number(crc, steps) for place in places for steps in place.steps)
    return ".".join((version, text, *map(str, numbers)))


def _sealed_inside(places: Collection[PackedPlace]) -> tuple[str, int, str]:
    """The version of a text in which numbers may follow, its CRC, and what is in front of the numbers."""
    if any(place.is_copied for place in places):
        return COPIED, *_sealed_bytes(_joined([place.copied for place in places]))
    return PARTIAL, *_sealed_bytes(_joined([place.partial for place in places]))


class StepTexts:
    """The texts of one place inside a transaction, by its steps: what many rows of one transaction need."""

    def __init__(self, place: Place | Sequence[PackedPlace], at: int = 0) -> None:
        """Takes a place with one part, or with steps behind a position in a file; how many is no matter.

        Args:
            place: The place; of a token with more sources all of them, in the order of their names.
            at: Which of them, from 0, is the place.
        """
        places = (packed_place(place),) if isinstance(place, Place) else place
        version, self.crc, text = _sealed_inside(places)
        # What other places have of transactions of their own: a reader was given a part, and goes on elsewhere.
        before, after = (
            [str(step_number(self.crc, steps)) for one in some for steps in one.steps]
            for some in (places[:at], places[at + 1 :])
        )
        self.head = ".".join((version, text, *before, ""))
        """All texts begin with it; the number follows."""
        self.tail = "".join(f".{number}" for number in after)
        """All end with it."""

    def text(self, steps: int) -> str:
        """As `to_text` of such a token, with so many steps."""
        return f"{self.head}{step_number(self.crc, steps)}{self.tail}"


def _joined(packed: Sequence[bytes]) -> bytes:
    """An array in MessagePack of what has been packed."""
    return array_head(len(packed)) + b"".join(packed)


def step_number(crc: int, steps: int) -> int:
    """What stands behind the head of the text of a place inside a transaction."""
    return steps * _CHECKS + _check(crc, steps)


def steps_of(number: int) -> int:
    """The steps of a `step_number`, whose check is left to others."""
    return number // _CHECKS


def step_numbers(crcs: Numbers, steps: Numbers) -> Numbers:
    """The `step_number` of many."""
    seeds = (crcs >> 16 ^ crcs) & (_CHECKS - 1)
    return steps * _CHECKS + ((seeds ^ steps ^ steps >> 16) * _MULTIPLIER & (_CHECKS - 1))


def _seed(crc: int) -> int:
    return (crc >> 16 ^ crc) & (_CHECKS - 1)


def _check(crc: int, steps: int) -> int:
    return (_seed(crc) ^ steps ^ steps >> 16) * _MULTIPLIER & (_CHECKS - 1)


def _sealed_bytes(body: bytes) -> tuple[int, str]:
    crc = zlib.crc32(body)
    return crc, base64.urlsafe_b64encode(crc.to_bytes(_CRC_BYTES, "big") + body).decode().rstrip("=")


def from_text(text: str) -> Token:
    """Reads what `to_text` gave; blanks around it, as copying leaves them, are no matter.

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
    crc, body = raw[:_CRC_BYTES], raw[_CRC_BYTES:]
    if zlib.crc32(body).to_bytes(_CRC_BYTES, "big") != crc:
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


def _refused(text: str, what: str, remedy: str = "Copy the whole of it again.") -> InvalidTokenError:
    shown = text if len(text) <= 60 else f"{text[:40]}...{text[-10:]}"
    return InvalidTokenError(f"{shown!r} {what}", remedy=remedy)
