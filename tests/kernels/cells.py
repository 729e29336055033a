"""Builds buffers of cells, as a walk over row images would find them."""

from __future__ import annotations

import numpy as np

BASE = -2
"""What cells are relative to: 0 and 1 mean NULL and absent."""


def cells_of(values: list[bytes | None]) -> tuple[np.ndarray, np.ndarray]:
    """A buffer that ends with the last value, so that a read behind it is one out of bounds; and the cells."""
    data, places = bytearray(), []
    for value in values:
        places.append(0 if value is None else len(data) - BASE)
        data += value or b""
    return np.frombuffer(data or bytearray(1), np.uint8).copy(), np.array(places, np.uint32)


def prefixed(values: list[bytes | None], prefix: int) -> list[bytes | None]:
    """Values with their length in front of them."""
    return [None if value is None else len(value).to_bytes(prefix, "little") + value for value in values]
