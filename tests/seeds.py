"""Seeds of tests that draw by lot on a real server: the same ones each time, or with `STRATA_SEEDS=COUNT` so many new
ones. Not here: properties of Hypothesis (`properties.py`)."""

from __future__ import annotations

import os
import secrets
from typing import Any, Final

import pytest

_COUNT: Final = int(os.environ.get("STRATA_SEEDS", "0"))


def are_drawn() -> bool:
    """Whether there is time for more than the usual: for all pairs of what a test has several of."""
    return _COUNT > 0


def seeds(usual: int = 1, *, soaked: int = 0) -> list[Any]:
    """For a parameter of a test: its id is what draws the same again; so many more are left to `make soak`."""
    if _COUNT:
        return [secrets.randbits(32) for _ in range(_COUNT)]
    more = range(usual, usual + soaked)
    return [*range(usual), *(pytest.param(seed, marks=pytest.mark.soak) for seed in more)]
