"""Kernels are run compiled, uncompiled (NUMBA_DISABLE_JIT=1) and with checked bounds (NUMBA_BOUNDSCHECK=1)."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _wrapping_integers():
    """Compiled integers wrap around in silence, and kernels count on it; NumPy's warn."""
    with np.errstate(over="ignore"):
        yield
