"""Kernels are run compiled, uncompiled (NUMBA_DISABLE_JIT=1) and with checked bounds (NUMBA_BOUNDSCHECK=1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

# The first call of a kernel may compile it.
settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")


@pytest.fixture(autouse=True)
def _wrapping_integers():
    """Compiled integers wrap around in silence, and kernels count on it; NumPy's warn."""
    with np.errstate(over="ignore"):
        yield
