"""The part of the wheel that `pyproject.toml` cannot say: with linked kernels in it, it is a wheel for one platform.
Not here: everything else of the package (`pyproject.toml`), linking the kernels (`scripts/startup/link_kernels.py`)."""

from __future__ import annotations

from pathlib import Path

from setuptools import Distribution, setup

LINKED = Path(__file__).parent / "include" / "strata_cdc" / "binlog" / "kernels" / "__pycache__"


class StrataDistribution(Distribution):
    """Pure Python, unless set-up has linked the kernels here: their library is in the wheel, too."""

    def has_ext_modules(self) -> bool:
        """Whether the wheel is for one platform."""
        return any(LINKED.glob("linked_kernels-*.so"))


setup(distclass=StrataDistribution)
