"""The types of what kernels take and give, for the checkers.
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
    Words = NDArray[np.uint64]
    Bytes = NDArray[np.uint8]
    Ints = NDArray[np.int64]
    CodePoints = NDArray[np.int32]
    Offsets = NDArray[np.int32]
    Cells = NDArray[np.uint32]
    """Where a column's cells start: 0 for NULL, 1 for absent from the image, else bytes behind a base."""
