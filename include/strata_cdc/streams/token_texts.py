"""The texts of the tokens of many transactions at once: those with the same head differ in a few numbers.
Not here: the form of a text (`position/token_text.py`), one token (`events.py`)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from strata_cdc.binlog.kernels.crc import CRC_TABLES
from strata_cdc.binlog.kernels.token_texts import LONGEST_NUMBER, token_letters
from strata_cdc.changes.lines import LineColumn
from strata_cdc.changes.texts import Texts
from strata_cdc.position.token_digits import LETTERS, digits
from strata_cdc.position.token_seal import SEAL_LETTERS, head_of, sealed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.position.token_packed import PackedPlace
    from strata_cdc.position.token_seal import StepTexts
    from strata_cdc.streams.events import StreamTransaction

MANY: Final = 48
"""From this number of transactions on, columns are faster than one transaction at a time."""
_LETTERS: Final = np.frombuffer(LETTERS.encode(), np.uint8)


class Growth(NamedTuple):
    """What changes in the packed position of a source from one token to the next."""

    at: int
    """Which of the packed numbers grows (`growing`)."""
    numbers: Ints
    """This number in each token."""
    committed_at: Ints
    """The last of the packed numbers in each token."""


class TokenHeads(NamedTuple):
    """The begin of the tokens inside some transactions; the number of steps follows."""

    texts: Texts
    crcs: Ints
    """The CRC32 of each."""
    tails: list[str] | None = None
    """What follows the number of steps before the seal; None: nothing."""


class SpanTokens(NamedTuple):
    """The tokens of some transactions."""

    inside: TokenHeads
    """The begin of the tokens inside each."""
    after: Texts
    """The token after each."""
    more_keys: Texts | None = None
    """More keys of the lines of each, as JSON after other keys; None: no line has any."""


def tokens_of(packed: Sequence[PackedPlace], growths: Mapping[int, Growth]) -> Texts:
    """Returns some tokens between transactions, as `to_text` returns them.

    Args:
        packed: The packed positions of all sources, in the order of the sources' names.
        growths: By the index of a source, what of it changes from token to token; of one source at least.
    """
    return _texts(*_parts(packed, growths), seal=True)[0]


def heads_of(packed: Sequence[PackedPlace], growths: Mapping[int, Growth]) -> TokenHeads:
    """Returns the begin of the tokens inside some transactions. Takes what `tokens_of` takes; the position of one
    source has a part."""
    return TokenHeads(*_texts(*_parts(packed, growths), seal=False))


def heads_one_by_one(steps: Sequence[StepTexts]) -> TokenHeads:
    """Returns the same from the texts of each transaction."""
    heads = [step.head.encode() for step in steps]
    tails = [step.tail for step in steps]
    return TokenHeads(
        Texts.from_texts(heads), np.array(list(map(zlib.crc32, heads)), np.int64), tails if any(tails) else None
    )


def joined_heads(parts: Sequence[TokenHeads]) -> TokenHeads:
    """Returns the heads of all parts, one part after the other."""
    tails = [tail for part in parts for tail in part.tails or [""] * len(part.texts)]
    texts, crcs = Texts.joined([part.texts for part in parts]), np.concatenate([part.crcs for part in parts])
    return TokenHeads(texts, crcs, tails if any(tails) else None)


def tokens_one_by_one(transactions: Sequence[StreamTransaction]) -> SpanTokens:
    """Returns the tokens of some transactions, from the texts of each."""
    after = Texts.from_texts([transaction.after_text.encode() for transaction in transactions])
    return SpanTokens(heads_one_by_one([transaction.steps for transaction in transactions]), after)


def joined_tokens(parts: Sequence[SpanTokens]) -> SpanTokens:
    """Returns the tokens of all parts, one part after the other; they have no more keys."""
    return SpanTokens(joined_heads([part.inside for part in parts]), Texts.joined([part.after for part in parts]))


def tokens_inside(heads: TokenHeads, chosen: Ints, steps: Ints) -> list[LineColumn]:
    """Returns columns of the tokens of rows.

    Args:
        heads: The begin of the tokens inside some transactions.
        chosen: For each row, the number of its transaction among these.
        steps: For each row, how many steps of the transaction were sent up to it.
    """
    crcs = heads.crcs[chosen]
    if heads.tails is None:
        ends = _texts([b"", b""], [steps], crcs, seal=True)[0]
    else:
        # Another source, too, is inside a transaction; this is rare.
        rows = zip(chosen.tolist(), steps.tolist(), crcs.tolist(), strict=True)
        ends = Texts.from_texts([sealed(digits(count) + heads.tails[at], crc).encode() for at, count, crc in rows])
    return [LineColumn(heads.texts, chosen), LineColumn(ends)]


def _parts(places: Sequence[PackedPlace], growths: Mapping[int, Growth]) -> tuple[list[bytes], list[Ints], Ints]:
    """What is the same in some tokens up to the steps, before, between and after the numbers that change; these
    numbers; and the CRC32 of what is before the first one."""
    same: list[str] = [head_of(places)]
    numbers: list[Ints] = []
    for number, packed in enumerate(places):
        growth = growths.get(number)
        if growth is None:
            same[-1] += packed.text
            continue
        before, after = packed.numbers[: growth.at], packed.numbers[growth.at + 1 : -1]
        same[-1] += "".join(map(digits, before))
        same += ["".join(map(digits, after)), ""]
        numbers += [growth.numbers, growth.committed_at]
    alike = [text.encode() for text in same]
    return alike, numbers, np.full(len(numbers[0]), zlib.crc32(alike[0]), np.int64)


def _texts(alike: Sequence[bytes], numbers: Sequence[Ints], crcs: Ints, *, seal: bool) -> tuple[Texts, Ints]:
    """Makes texts that are equal except for some numbers.

    Args:
        alike: What is before the first number, between the numbers, and after the last one.
        numbers: The numbers, one or more, each with an entry for each text.
        crcs: The CRC32 of all that is before the first number of each text.
        seal: Whether the texts get their seals.

    Returns:
        The texts, and the CRC32 of each, without the seal.
    """
    count = len(crcs)
    size = sum(map(len, alike)) + LONGEST_NUMBER * len(numbers) + (SEAL_LETTERS if seal else 0)
    starts, out = np.empty(count + 1, np.int64), np.empty(count * size, np.uint8)
    same = np.frombuffer(b"".join(alike), np.uint8), np.cumsum([0, *map(len, alike)])
    token_letters(CRC_TABLES, _LETTERS, same, np.stack(numbers), int(seal), crcs, starts, out)
    return Texts(out[: starts[-1]], starts), crcs
