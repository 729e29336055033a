"""The part of the wheel that `pyproject.toml` cannot say: kernels are linked when it is built, and its name says so.
Not here: everything else of the package (`pyproject.toml`), linking the kernels (`scripts/startup/link_kernels.py`)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from platform import machine

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

ROOT = Path(__file__).parent
KERNELS = ROOT / "include" / "strata_cdc" / "binlog" / "kernels" / "__pycache__"
LIBC = "manylinux_2_17"
"""The library calls a handful of the C library's functions, all older than this one."""


class StrataDistribution(Distribution):
    """Pure Python, unless the kernels are linked."""

    def has_ext_modules(self) -> bool:
        """Whether there is machine code in it."""
        return any(KERNELS.glob("linked_kernels-*.so"))


class LinkedWheel(bdist_wheel):
    """A wheel for one platform and any Python: its kernels are a shared library, and cffi calls it.

    Where nothing can be linked (no compiler, no linker), it is a wheel for any platform, which needs Numba (the extra
    `compile`).
    """

    def run(self) -> None:
        """Links the kernels, unless set-up has."""
        if importlib.util.find_spec("numba") is not None:
            paths = [str(ROOT / "include"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
            subprocess.run(
                [sys.executable, "-m", "scripts.startup.link_kernels", "--missing"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                check=True,
            )
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        """The platform for which the kernels are linked."""
        return super().get_tag() if self.root_is_pure else ("py3", "none", f"{LIBC}_{machine()}")


setup(distclass=StrataDistribution, cmdclass={"bdist_wheel": LinkedWheel})
