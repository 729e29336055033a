"""The texts of the tokens of many transactions at once: those with the same head differ in a few numbers.
Not here: the form of a text (`position/token_text.py`), which tokens (`streams/source_tokens.py`)."""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.kernels.crc import CRC_TABLES
from strata_cdc.binlog.kernels.token_texts import LONGEST_NUMBER, token_letters
from strata_cdc.changes.texts import Texts
from strata_cdc.position.token_digits import LETTERS, digits
from strata_cdc.position.token_seal import SEAL_LETTERS, head_of, sealed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.position.token_packed import PackedSourcePosition
    from strata_cdc.position.token_seal import StepTexts

_LETTERS: Final = np.frombuffer(LETTERS.encode(), np.uint8)


class Growth(NamedTuple):
    """What changes in the packed position of a source from one token to the next."""

    at: int
    """Which of the packed numbers grows (`growing`)."""
    numbers: Ints
    """This number in each token."""
    committed_at: Ints
    """The last of the packed numbers in each token."""


class GrowingTokens(Struct, frozen=True, eq=False):
    """The tokens of consecutive transactions that differ in a few numbers: after each, or inside each, without what
    follows the number of steps. At least one number grows."""

    packed: Sequence[PackedSourcePosition]
    """The packed positions of all sources before the transactions, or inside the first, in the order of the sources'
    names."""
    growths: Mapping[int, Growth]
    """By the index of a source, what of it changes from token to token."""


class TokensAfter(Struct, frozen=True, eq=False, dict=True):
    """The tokens after some transactions."""

    runs: Sequence[GrowingTokens | Sequence[str]]
    """Those that differ in a few numbers, or single tokens."""

    @cached_property
    def made(self) -> Texts:
        """The texts."""
        return Texts.joined([_tokens_of(run) for run in self.runs])


class TokenHeads(NamedTuple):
    """The begin of the tokens inside some transactions."""

    texts: Texts
    crcs: Ints
    """The CRC32 of each."""
    tails: list[str]
    """What follows the number of steps before the seal; empty: nothing."""


class TokensInside(Struct, frozen=True, eq=False, dict=True):
    """The begin of the tokens inside some transactions; the number of steps follows."""

    runs: Sequence[GrowingTokens | Sequence[StepTexts]]
    """Those that differ in a few numbers, or those of single transactions."""

    @cached_property
    def heads(self) -> TokenHeads:
        """The texts, with what their seals need."""
        parts = [_heads_of(run) for run in self.runs]
        tails = [tail for part in parts for tail in part.tails or [""] * len(part.texts)]
        texts, crcs = Texts.joined([part.texts for part in parts]), np.concatenate([part.crcs for part in parts])
        return TokenHeads(texts, crcs, tails if any(tails) else [])

    @property
    def made(self) -> Texts:
        """The texts."""
        return self.heads.texts


class TokenEnds(Struct, frozen=True, eq=False, dict=True):
    """The end of the tokens of rows."""

    inside: TokensInside
    """The begin of the tokens inside some transactions."""
    chosen: Ints
    """For each row, the number of its transaction among these."""
    steps: Ints
    """For each row, how many steps of the transaction were sent up to it."""

    @cached_property
    def made(self) -> Texts:
        """The texts."""
        heads = self.inside.heads
        crcs = heads.crcs[self.chosen]
        if not heads.tails:
            return _texts([b"", b""], [self.steps], crcs, seal=True)[0]
        # Another source, too, is inside a transaction; this is rare.
        rows = zip(self.chosen.tolist(), self.steps.tolist(), crcs.tolist(), strict=True)
        return Texts.from_texts([sealed(digits(count) + heads.tails[at], crc).encode() for at, count, crc in rows])


def _tokens_of(run: GrowingTokens | Sequence[str]) -> Texts:
    if isinstance(run, GrowingTokens):
        return _texts(*_parts(run), seal=True)[0]
    return Texts.from_texts([token.encode() for token in run])


def _heads_of(run: GrowingTokens | Sequence[StepTexts]) -> TokenHeads:
    if isinstance(run, GrowingTokens):
        return TokenHeads(*_texts(*_parts(run), seal=False), [])
    heads, tails = [step.head.encode() for step in run], [step.tail for step in run]
    return TokenHeads(
        Texts.from_texts(heads), np.array(list(map(zlib.crc32, heads)), np.int64), tails if any(tails) else []
    )


def _parts(run: GrowingTokens) -> tuple[list[bytes], list[Ints], Ints]:
    """What is the same in some tokens up to the steps, before, between and after the numbers that change; these
    numbers; and the CRC32 of what is before the first one."""
    same: list[str] = [head_of(run.packed)]
    numbers: list[Ints] = []
    for number, packed in enumerate(run.packed):
        growth = run.growths.get(number)
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
