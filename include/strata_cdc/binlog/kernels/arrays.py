"""The types of what kernels take and give, for the checkers and for `scripts/startup/link_kernels.py`.
Not here: anything that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Int = Any
    """A 64-bit integer: numpy's where compiled code meets none, Python's where it does, which mypy keeps apart."""
    Word = Any
    """An unsigned 64-bit integer, which never meets a signed one."""
    Bytes = NDArray[np.uint8]
    Flags = NDArray[np.uint16]
    Shorts = NDArray[np.int16]
    Ints = NDArray[np.int64]
    CodePoints = NDArray[np.int32]
    Offsets = NDArray[np.int32]
    Slots = NDArray[np.int32]
    Days = NDArray[np.int32]
    Integers = NDArray[np.signedinteger[Any]]
    """Of one, two, four or eight bytes."""
    ByteRows = NDArray[np.uint8]
    """Two dimensions, as the next three have."""
    CrcRows = NDArray[np.uint32]
    IntRows = NDArray[np.int64]
    WordRows = NDArray[np.uint64]
    IntBlocks = NDArray[np.int64]
    """Three dimensions."""
    Cells = NDArray[np.uint32]
    """Where a column's cells start: 0 for NULL, 1 for absent from the image, else bytes after a base."""
