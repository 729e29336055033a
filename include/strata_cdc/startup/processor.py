"""What the processor can do, and whether kernels are wanted as machine code at all.
Not here: anything that needs Numba to be imported."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path
from typing import Final

_CPUINFO = Path("/proc/cpuinfo")
_FEATURE_LINES = ("flags", "Features")
"""On x86 and on ARM."""

PORTABLE: Final = "x86-64-v3"
"""A level of the x86-64 psABI that compilers know by this name; with CARRYLESS, linked kernels need no more."""
CARRYLESS: Final = "pclmulqdq"
_PORTABLE_FEATURES: Final = frozenset(
    {
        *("cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"),
        *("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"),
        CARRYLESS,
    }
)
"""Names of /proc/cpuinfo for what x86-64-v3 adds to x86-64; servers have it since 2013 (Intel) and 2015 (AMD)."""


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


def processor_level() -> str | None:
    """What machine code is made for: the same on all processors that can run the same linked kernels.

    None where the features cannot be read: machine code from another processor may not run on this one.
    """
    features = processor_features()
    if not features:
        return None
    if platform.machine() == "x86_64" and features >= _PORTABLE_FEATURES:
        return PORTABLE
    return f"{platform.machine()}-{hashlib.sha256(' '.join(sorted(features)).encode()).hexdigest()[:8]}"
