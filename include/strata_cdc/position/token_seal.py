"""What a text of an event token is: packed places behind a checksum, and the steps inside of transactions.
Not here: the form and reading it (`token_text.py`), the packed bytes (`token_packed.py`)."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

from strata_cdc.position.source_position import SourcePosition
from strata_cdc.position.token_packed import COPIED, PARTIAL, WHOLE, array_head, packed_place

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from strata_cdc.position.token_packed import PackedPlace

Numbers = Any
"""An array of 64-bit integers: this room has no arrays of its own."""
CRC_BYTES = 4
_CHECKS = 1 << 16
_MULTIPLIER = 40503
"""Odd, and near 2^16 by the golden ratio: neighbouring numbers get checks that lie far apart."""


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

    def __init__(self, place: SourcePosition | Sequence[PackedPlace], at: int = 0) -> None:
        """Takes a place with one part, or with steps behind a position in a file; how many is no matter.

        Args:
            place: The place; of a token with more sources all of them, in the order of their names.
            at: Which of them, from 0, is the place.
        """
        places = (packed_place(place),) if isinstance(place, SourcePosition) else place
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
    return crc, base64.urlsafe_b64encode(crc.to_bytes(CRC_BYTES, "big") + body).decode().rstrip("=")
