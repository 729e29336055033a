"""Texts, one after the other, of which lines of JSON are made.
Not here: which texts (`json_columns.py`, `streams`)."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.kernels.memory import address_of
from strata_cdc.binlog.kernels.number_texts import LONGEST_INTEGER, SECOND_BYTES, integer_texts, moment_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from strata_cdc.binlog.kernels.arrays import Bytes, Ints


class Texts(Struct, frozen=True, eq=False, dict=True):
    """Texts, one after the other."""

    data: Bytes
    starts: Ints
    """Where each text begins, and where the last one ends."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def made(self) -> Texts:
        """These texts: they exist."""
        return self

    @cached_property
    def addresses(self) -> list[int]:
        """Address and number of the bytes; address of the starts, and number of texts: as kernels need them."""
        data, starts = self.data, self.starts
        return [address_of(data, np.uint8), len(data), address_of(starts, np.int64), len(starts) - 1]

    @classmethod
    def from_texts(cls, texts: Sequence[bytes]) -> Texts:
        """Existing texts."""
        starts = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        return cls(np.frombuffer(b"".join(texts), np.uint8), starts)

    @classmethod
    def of_column(cls, column: pa.Array) -> Texts:
        """The texts of an Arrow array of strings or of binary values, without a copy; null may have any text."""
        _, offsets, data = column.buffers()
        count = len(column)
        if offsets is None or data is None or not count:
            return cls(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64))
        starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1].astype(np.int64)
        return cls(np.frombuffer(data, np.uint8)[starts[0] : starts[-1]], starts - starts[0])

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Texts:
        """The texts of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        starts = np.zeros(sum(map(len, parts)) + 1, np.int64)
        np.cumsum(np.concatenate([np.diff(part.starts) for part in parts]), out=starts[1:])
        return cls(np.concatenate([part.data for part in parts]), starts)

    def between(self, begin: int, end: int) -> Texts:
        """The texts from number `begin` to before number `end`, without a copy."""
        starts = self.starts[begin : end + 1]
        return Texts(self.data[starts[0] : starts[-1]], starts - starts[0])


class TextSource(Protocol):
    """Texts that exist, or that are made when lines are written."""

    @property
    def made(self) -> Texts:
        """The texts."""


class Constants(Struct, frozen=True, eq=False, dict=True):
    """A few texts that are used many times: keys, and what is between values."""

    texts: tuple[bytes, ...]

    @cached_property
    def made(self) -> Texts:
        """The texts."""
        return _kept(self.texts)


class ListedTexts(Struct, frozen=True, eq=False, dict=True):
    """Texts that were made one by one."""

    texts: Sequence[bytes]

    @cached_property
    def made(self) -> Texts:
        """The texts."""
        return Texts.from_texts(self.texts)


class Digits(Struct, frozen=True, eq=False, dict=True):
    """Integers as decimal digits."""

    values: Ints

    @cached_property
    def made(self) -> Texts:
        """The texts."""
        count = len(self.values)
        starts, out = np.empty(count + 1, np.int64), np.empty(LONGEST_INTEGER * count, np.uint8)
        return Texts(out[: integer_texts(self.values, starts, out)], starts)


class Moments(Struct, frozen=True, eq=False, dict=True):
    """Moments as `moment_texts` writes them, each followed by `end`."""

    values: Ints
    separator: str
    digits: int
    end: str = ""

    @cached_property
    def made(self) -> Texts:
        """The texts."""
        count, size = len(self.values), SECOND_BYTES + (1 + self.digits if self.digits else 0)
        out = np.empty((count, size + len(self.end)), np.uint8)
        out[:, size:] = np.frombuffer(self.end.encode(), np.uint8)
        moment_texts(self.values, ord(self.separator), self.digits, size + len(self.end), out.reshape(-1))
        return Texts(out.reshape(-1), np.arange(count + 1) * (size + len(self.end)))


@lru_cache(1 << 12)
def _kept(texts: tuple[bytes, ...]) -> Texts:
    return Texts.from_texts(texts)
