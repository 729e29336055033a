"""What the processor can do, and whether kernels are wanted as machine code at all.
Not here: anything that needs Numba to be imported."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_FEATURE_LINES = ("flags", "Features")
"""On x86 and on ARM."""


def is_plain_python() -> bool:
    """Whether kernels stay plain Python (NUMBA_DISABLE_JIT)."""
    return _is_set("NUMBA_DISABLE_JIT")


def has_checked_bounds() -> bool:
    """Whether each access of a kernel is checked (NUMBA_BOUNDSCHECK)."""
    return _is_set("NUMBA_BOUNDSCHECK")


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0") not in {"", "0"}


@cache
def processor_features() -> frozenset[str]:
    """The processor's features by the kernel's names; none where they cannot be read."""
    try:
        with _CPUINFO.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, features = line.partition(":")
                if name.strip() in _FEATURE_LINES:
                    return frozenset(features.split())
    except OSError:
        pass
    return frozenset()
