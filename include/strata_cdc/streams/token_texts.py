"""Makes the texts of the tokens of many transactions at once, if one server has numbered the transactions
consecutively: each text differs from the next in two numbers, and is made of the text before it.
Not here: the form of a text (`position/token_text.py`), one token (`events.py`)."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase, digits
from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.crc import CRC_TABLES
from strata_cdc.binlog.kernels.token_texts import seal_texts
from strata_cdc.changes.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.position.token_packed import Growing

_LETTERS: Final = np.frombuffer(f"{ascii_uppercase}{ascii_lowercase}{digits}-_".encode(), np.uint8)
"""RFC 4648, 5."""
_CRC_BYTES: Final = 4
_NUMBER_BYTES: Final = 9
"""The most bytes of a number in MessagePack."""


def texts_behind(known: Growing, numbers: Ints, committed_at: Ints) -> Texts:
    """Returns the tokens after some transactions, as `to_text` returns them.

    Args:
        known: What the tokens have in common.
        numbers: Numbers of the transactions.
        committed_at: Their commit times, microseconds UTC.
    """
    parts: list[bytes | Ints] = [known.name, committed_at, known.before, numbers, known.behind]
    if not known.origins:
        return sealed(b"v1.", [b"\x91\x94", *parts], b"")[0]
    return sealed(b"v3.", [b"\x91\x96", *parts, b"\x90", known.origins], b"")[0]


def heads_inside(known: Growing, numbers: Ints, committed_at: Ints) -> tuple[Texts, Ints]:
    """Returns `StepTexts.head` and `StepTexts.crc` of some transactions."""
    front: list[bytes | Ints] = [known.name, committed_at, known.before, numbers - 1]
    parts = [*front, known.behind, known.inside, numbers]
    if not known.origins:
        return sealed(b"v2.", [b"\x91\x95", *parts], b".")
    return sealed(b"v3.", [b"\x91\x96", *parts, known.origins], b".")


def sealed(front: bytes, parts: Sequence[bytes | Ints], end: bytes) -> tuple[Texts, Ints]:
    """Makes texts that are equal except for some numbers.

    Args:
        front: The text before the base64.
        parts: What is packed, one after the other: bytes that are equal in all texts, or a number for each text, 0 or
            more. At least one part is numbers.
        end: The text after the base64.

    Returns:
        The texts, and the CRC32 of what is packed in each.
    """
    alike = [b""]
    columns: list[Ints] = []
    for part in parts:
        if isinstance(part, bytes):
            alike[-1] += part
        else:
            columns.append(part)
            alike.append(b"")
    numbers = np.stack(columns)
    count, row_bytes = numbers.shape[1], _CRC_BYTES + sum(map(len, alike)) + _NUMBER_BYTES * len(columns)
    text = np.empty(len(front) + (row_bytes + 2) // 3 * 4, np.uint8)
    text[: len(front)] = np.frombuffer(front, np.uint8)
    out = np.empty(count * (len(text) + len(end)), np.uint8)
    borders = np.cumsum([0, *map(len, alike)])
    starts, crcs = np.empty(count + 1, np.int64), np.empty(count, np.int64)
    pattern = len(front), np.frombuffer(b"".join(alike), np.uint8), borders, np.frombuffer(end, np.uint8)
    scratch = np.empty(row_bytes + 2, np.uint8), text, np.empty(len(columns), np.int64)
    failed = seal_texts(CRC_TABLES, _LETTERS, pattern, numbers, scratch, out, starts, crcs)
    if failed >= 0:
        raise RuntimeError(f"token {failed} is longer than was counted")
    return Texts(out[: starts[-1]], starts), crcs
