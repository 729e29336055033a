"""Arrow without pandas, which it would load to look whether a value is of pandas.
Not here: columns over the same memory (`arrow_columns.py`)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from strata_cdc.startup.switch import QuickStart, is_on

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _NoPandas:
    """Finds no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        del path, target
        if name == "pandas":
            raise ImportError("Arrow is to do without pandas")
        return None


def keep_pandas_out() -> None:
    """Makes Arrow do without pandas in this process, for a command that has no values of pandas.

    Arrow asks pandas about each value that it converts, and imports it once; if that fails, it never asks again
    (pyarrow 26, `pandas-shim.pxi`). A program that imports pandas itself later can still use it.
    """
    if not is_on(QuickStart.PANDAS) or "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)
