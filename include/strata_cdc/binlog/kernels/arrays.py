"""The types of the arguments and results of kernels, for the type checkers and for `scripts/startup/link_kernels.py`.
Not here: code that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Int = Any
    """A 64-bit integer: numpy's in plain Python code, Python's from compiled code. mypy distinguishes them."""
    Word = Any
    """An unsigned 64-bit integer, which is never combined with a signed one."""
    Bytes = NDArray[np.uint8]
    Flags = NDArray[np.uint16]
    Shorts = NDArray[np.int16]
    Ints = NDArray[np.int64]
    CodePoints = NDArray[np.int32]
    Offsets = NDArray[np.int32]
    Slots = NDArray[np.int32]
    Days = NDArray[np.int32]
    Integers = NDArray[np.signedinteger[Any]]
    """Integers of one, two, four or eight bytes."""
    ByteRows = NDArray[np.uint8]
    """Two dimensions, like the next three."""
    CrcRows = NDArray[np.uint32]
    IntRows = NDArray[np.int64]
    WordRows = NDArray[np.uint64]
    IntBlocks = NDArray[np.int64]
    """Three dimensions."""
    Cells = NDArray[np.uint32]
    """Where a column's cells start: 0 for NULL, 1 for absent from the image, else the number of bytes after a base."""
