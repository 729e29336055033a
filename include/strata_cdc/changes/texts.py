"""Texts, one after the other, of which lines of JSON are made.
Not here: which texts (`json_columns.py`, `streams`)."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

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


def integer_texts_of(values: Ints) -> Texts:
    """Integers as decimal digits."""
    starts, out = np.empty(len(values) + 1, np.int64), np.empty(LONGEST_INTEGER * len(values), np.uint8)
    return Texts(out[: integer_texts(values, starts, out)], starts)


def moment_texts_of(values: Ints, separator: str, digits: int, end: str = "") -> Texts:
    """Moments as `moment_texts` writes them, each followed by `end`."""
    size = SECOND_BYTES + (1 + digits if digits else 0)
    out = np.empty((len(values), size + len(end)), np.uint8)
    out[:, size:] = np.frombuffer(end.encode(), np.uint8)
    moment_texts(values, ord(separator), digits, size + len(end), out.reshape(-1))
    return Texts(out.reshape(-1), np.arange(len(values) + 1) * (size + len(end)))


@lru_cache(1 << 12)
def constant_texts(*texts: bytes) -> Texts:
    """A few texts that are used many times: keys, and what is between values."""
    return Texts.from_texts(texts)
