"""Finds the library of kernels that set-up links (`scripts/startup/link_kernels.py`): machine code that needs no Numba.
Not here: what happens without it (`binlog/kernels/jit.py`, `binlog/kernels/compiler.py`)."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata_cdc.startup import processor
from strata_cdc.startup.processor import has_checked_bounds, is_plain_python, processor_level
from strata_cdc.startup.switch import QuickStart, is_on

if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDER = Path(__file__).parents[1] / "binlog" / "kernels"
NAME = "linked_kernels"


def library_paths() -> tuple[Path, Path] | None:
    """Where the library for these sources and this processor belongs, and the Python module that calls it.

    None where the processor's features cannot be read.
    """
    level = processor_level()
    if level is None:
        return None
    stamp = hashlib.sha256(f"{sys.platform} {level}".encode())
    for source in [*sorted(_FOLDER.glob("*.py")), Path(processor.__file__)]:
        stamp.update(source.read_bytes())
    stem = f"{NAME}-{level}-{stamp.hexdigest()[:16]}"
    return _FOLDER / "__pycache__" / f"{stem}.so", _FOLDER / "__pycache__" / f"{stem}.py"


def _usable_paths() -> tuple[Path, Path] | None:
    if is_plain_python() or has_checked_bounds() or not is_on(QuickStart.KERNELS):
        return None
    paths = library_paths()
    return paths if paths is not None and all(path.exists() for path in paths) else None


@cache
def are_linked() -> bool:
    """Whether kernels of this process need not be compiled: there is a library for this processor."""
    return _usable_paths() is not None


def linked_kernels(compile_now: Callable[[str], Callable[..., Any]]) -> dict[str, Callable[..., Any]] | None:
    """The kernels of the library by `file.name`; None if there is none, or another mode is wanted.

    Args:
        compile_now: Gives the kernel of a name for arguments that the library has no code for.
    """
    paths = _usable_paths()
    if paths is None:
        return None
    library, caller = paths
    spec = importlib.util.spec_from_file_location(f"strata_cdc.binlog.kernels.{NAME}", caller)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        kernels: dict[str, Callable[..., Any]] = module.open_library(str(library), compile_now)
    except OSError:
        return None  # a folder from which nothing may be executed
    return kernels
