"""The text of an event token: a checksum, packed positions, and the steps inside transactions.
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
"""An array of 64-bit integers: this package does not import arrays."""
CRC_BYTES = 4
_CHECKS = 1 << 16
_MULTIPLIER = 40503
"""Odd, and near 2^16 by the golden ratio: neighbouring numbers get very different checks."""


def text_of(places: Collection[PackedPlace]) -> str:
    """As `to_text` of a token with these positions, in the order of their sources."""
    if not any(place.steps or place.is_copied for place in places):
        return f"{WHOLE}.{_sealed_bytes(_joined([place.whole for place in places]))[1]}"
    version, crc, text = _sealed_inside(places)
    numbers = (step_number(crc, steps) for place in places for steps in place.steps)
    return ".".join((version, text, *map(str, numbers)))


def _sealed_inside(places: Collection[PackedPlace]) -> tuple[str, int, str]:
    """The version of a text in which numbers may follow, its CRC, and the text before the numbers."""
    if any(place.is_copied for place in places):
        return COPIED, *_sealed_bytes(_joined([place.copied for place in places]))
    return PARTIAL, *_sealed_bytes(_joined([place.partial for place in places]))


class StepTexts:
    """The texts of one position inside a transaction, by its steps: many rows of one transaction need them."""

    def __init__(self, place: SourcePosition | Sequence[PackedPlace], at: int = 0) -> None:
        """For a source's position with one part, or with steps after a position in a file; their number does not
        matter.

        Args:
            place: The position; for a token with several sources, all positions in the order of the sources' names.
            at: Index, from 0, of the position.
        """
        places = (packed_place(place),) if isinstance(place, SourcePosition) else place
        version, self.crc, text = _sealed_inside(places)
        # Other positions may be inside their own transactions: a reader received a part, and continues elsewhere.
        before, after = (
            [str(step_number(self.crc, steps)) for one in some for steps in one.steps]
            for some in (places[:at], places[at + 1 :])
        )
        self.head = ".".join((version, text, *before, ""))
        """The beginning of all texts; the number follows."""
        self.tail = "".join(f".{number}" for number in after)
        """The end of all texts."""

    def text(self, steps: int) -> str:
        """As `to_text` of such a token with this number of steps."""
        return f"{self.head}{step_number(self.crc, steps)}{self.tail}"


def _joined(packed: Sequence[bytes]) -> bytes:
    """A MessagePack array of packed items."""
    return array_head(len(packed)) + b"".join(packed)


def step_number(crc: int, steps: int) -> int:
    """The number after the head of the text of a position inside a transaction."""
    return steps * _CHECKS + _check(crc, steps)


def steps_of(number: int) -> int:
    """The steps of a `step_number`; its check is not verified here."""
    return number // _CHECKS


def step_numbers(crcs: Numbers, steps: Numbers) -> Numbers:
    """The `step_number` of many steps."""
    seeds = (crcs >> 16 ^ crcs) & (_CHECKS - 1)
    return steps * _CHECKS + ((seeds ^ steps ^ steps >> 16) * _MULTIPLIER & (_CHECKS - 1))


def _seed(crc: int) -> int:
    return (crc >> 16 ^ crc) & (_CHECKS - 1)


def _check(crc: int, steps: int) -> int:
    return (_seed(crc) ^ steps ^ steps >> 16) * _MULTIPLIER & (_CHECKS - 1)


def _sealed_bytes(body: bytes) -> tuple[int, str]:
    crc = zlib.crc32(body)
    return crc, base64.urlsafe_b64encode(crc.to_bytes(CRC_BYTES, "big") + body).decode().rstrip("=")
