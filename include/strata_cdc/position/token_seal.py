"""The text of a token: a head, numbers, and a seal over both.
Not here: what is in the head and which numbers there are (`token_packed.py`), texts of other versions
(`token_text.py`)."""

from __future__ import annotations

import base64
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strata_cdc.position.source_position import SourcePosition
from strata_cdc.position.token_digits import digits, numbers_of
from strata_cdc.position.token_packed import UUID_BYTES, PackedPart, packed_source_position, unpacked, uuid_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from strata_cdc.position.token_packed import PackedSourcePosition

VERSION: Final = "v4"
SEAL_LETTERS: Final = 6
_MANY_HEADS: Final = 256
"""A group of sources has two heads for each of them: between transactions of it, and inside of one."""


class _Head(Struct, array_like=True, forbid_unknown_fields=True):
    uuids: bytes
    """Each UUID once, in the order of first use."""
    used: list[Annotated[int, Meta(ge=0)]]
    """Which UUID each server has; empty if each UUID is used once."""
    forms: list[Annotated[int, Meta(ge=0)] | bytes]
    """For each source, how many bytes its form has in common with the beginning of the form before, then the rest of
    it: the names of a group's sources are alike."""
    parts: list[PackedPart]


_HEAD: Final = msgspec.msgpack.Decoder(_Head)


def text_of(positions: Collection[PackedSourcePosition]) -> str:
    """As `to_text` of a token with these positions, in the order of their sources."""
    steps = [digits(count) for source_position in positions for count in source_position.steps]
    return sealed(_up_to_steps(positions) + "".join(steps))


def head_of(positions: Collection[PackedSourcePosition]) -> str:
    """Returns the text of such a token up to its numbers."""
    forms = tuple([(source_position.form, source_position.uuids) for source_position in positions])
    parts = tuple([(at, *part) for at, source_position in enumerate(positions) for part in source_position.parts])
    return _packed_head(forms, parts)


def _up_to_steps(positions: Collection[PackedSourcePosition]) -> str:
    return head_of(positions) + "".join([source_position.text for source_position in positions])


class StepTexts:
    """The texts of one position inside a transaction, by its steps: many rows of one transaction need them."""

    def __init__(self, source_position: SourcePosition | Sequence[PackedSourcePosition], at: int = 0) -> None:
        """For a source's position with one part, or with steps after a position in a file; their number does not
        matter.

        Args:
            source_position: The position; for a token with several sources, all positions in the order of their names.
            at: Index, from 0, of the position.
        """
        positions = (
            (packed_source_position(source_position),)
            if isinstance(source_position, SourcePosition)
            else source_position
        )
        # Other positions may be inside their own transactions: a reader received a part, and continues elsewhere.
        before, after = (
            "".join(digits(steps) for packed in some for steps in packed.steps)
            for some in (positions[:at], positions[at + 1 :])
        )
        self.head = _up_to_steps(positions) + before
        """The beginning of all texts; the number of steps follows."""
        self.tail = after
        """What follows the number, before the seal."""

    def text(self, steps: int) -> str:
        """As `to_text` of such a token with this number of steps."""
        return sealed(f"{self.head}{digits(steps)}{self.tail}")


def sealed(text: str, crc: int = 0) -> str:
    """Returns the text with its seal, the CRC32 (big-endian) of all that is before it; `crc` is the CRC32 of what is
    before the text."""
    crc = zlib.crc32(text.encode(), crc)
    return text + base64.urlsafe_b64encode(crc.to_bytes(4, "big")).decode()[:SEAL_LETTERS]


@lru_cache(_MANY_HEADS)
def _packed_head(
    forms: tuple[tuple[bytes, tuple[str, ...]], ...], parts: tuple[tuple[int, PackedPart, str], ...]
) -> str:
    """The version and the head.

    Args:
        forms: The form of each source, and the UUIDs that it uses.
        parts: For each part which source it is of, the part, and the UUID that it uses, if it does.
    """
    used = [*(uuid for _, uuids in forms for uuid in uuids), *(uuid for _, _, uuid in parts if uuid)]
    known = {uuid: number for number, uuid in enumerate(dict.fromkeys(used))}
    fronts, before = list[int | bytes](), b""
    for form, _ in forms:
        differs = (at for at, (byte, other) in enumerate(zip(form, before, strict=False)) if byte != other)
        same = next(differs, min(len(form), len(before)))
        fronts += [same, form[same:]]
        before = form
    head = _Head(
        b"".join(map(uuid_bytes, known)),
        [known[uuid] for uuid in used] if len(known) < len(used) else [],
        fronts,
        [replace(part, source_position=at) for at, part, _ in parts],
    )
    packed = base64.urlsafe_b64encode(msgspec.msgpack.encode(head)).decode().rstrip("=")
    return f"{VERSION}.{packed}."


# Reading ----------------------------------------------------------------------------------------


def opened(text: str) -> tuple[SourcePosition, ...] | None:
    """Reads a text, without a check whether a token could have another text. None if the seal is wrong.

    Args:
        text: `VERSION`, a dot, letters, a dot, letters.

    Raises:
        msgspec.DecodeError: The text is sealed, and is no token.
        Usage: Likewise, with a wrong name of a file.
    """
    body = text[:-SEAL_LETTERS]
    _, packed, numbers = text.split(".")
    if len(numbers) < SEAL_LETTERS or sealed(body) != text:
        return None
    head = _HEAD.decode(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    return unpacked(list(_forms(head)), head.parts, _uuids(head), iter(numbers_of(numbers[:-SEAL_LETTERS])))


def _forms(head: _Head) -> Iterator[bytes]:
    before = b""
    for same, rest in zip(head.forms[::2], head.forms[1::2], strict=False):
        if not isinstance(same, int) or not isinstance(rest, bytes):
            raise msgspec.DecodeError("a form is missing")
        before = before[:same] + rest
        yield before


def _uuids(head: _Head) -> Iterator[str]:
    starts = range(0, len(head.uuids) - UUID_BYTES + 1, UUID_BYTES)
    known = [str(UUID(bytes=head.uuids[at : at + UUID_BYTES])) for at in starts]
    if max(head.used, default=0) >= len(known) > 0:
        raise msgspec.DecodeError("a UUID is missing")
    return iter([known[number] for number in head.used] if head.used else known)
